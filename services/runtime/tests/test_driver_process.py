"""A driver's process and its members, as far as that needs no Spark: who joins, how each ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from daggers.v1 import spec_pb2
from services.runtime.tests.launches import MAIN


def launch(folder: Path, dagger: str, generation: int, *, stops: bool = True) -> Path:
    """Write the run directory of a launch that is to stop before it begins, or has no such file."""
    run_dir = folder / dagger / str(generation)
    run_dir.mkdir(parents=True)
    job = spec_pb2.JobSpec(dagger=dagger, generation=generation, run_dir=str(run_dir))
    job.platform.bootstrap_servers = "nowhere.invalid:9092"
    (run_dir / "spec.pb").write_bytes(job.SerializeToString())
    if stops:
        (run_dir / "stop").touch()
    return run_dir


def test_each_member_ends_with_its_own_code_and_error(tmp_path: Path) -> None:
    first, second = (launch(tmp_path, name, 7) for name in ("one", "two"))
    broken = launch(tmp_path, "three", 7)
    (broken / "spec.pb").write_bytes(b"\xff\xff")
    (first / "members").mkdir()
    (first / "members" / "two.7").symlink_to(second)
    (first / "members" / "three.7").symlink_to(broken)
    (first / "members" / "three.8.new").symlink_to(broken)

    done = subprocess.run(
        [sys.executable, MAIN, "--spec", first / "spec.pb", "--generation", "7"],
        capture_output=True, check=False, timeout=120, cwd=first,
    )  # fmt: skip

    assert done.returncode in (0, 70)
    codes = [(run_dir / "exit-code").read_text() for run_dir in (first, second, broken)]
    assert codes == ["0\n", "0\n", "70\n"]
    assert json.loads((broken / "exit.json").read_text())["reason"] == "BAD_SPEC"
    assert not (first / "exit.json").exists()
    assert "ended reason=BAD_SPEC" in (broken / "driver.log").read_text()
    assert (second / "driver.log").read_text() == ""
    joined = [line.rpartition("link=")[2] for line in done.stderr.decode().splitlines() if "joined" in line]
    assert joined == ["three.7", "two.7"]
