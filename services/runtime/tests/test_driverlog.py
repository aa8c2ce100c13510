"""A driver's log stays short, whoever writes it, and its newest lines are all there."""

import subprocess
from pathlib import Path

from runtime.launch.driverlog import keep_short

LIMIT = 2_000


def test_a_log_that_two_processes_append_to_is_moved_when_it_is_long(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    older = tmp_path / "driver.log.1"
    sizes = []
    with log.open("ab") as output:
        for number in range(200):
            subprocess.run(["/bin/echo", f"{number:>30}"], stdout=output, check=True)
            output.write(f"{number:>30}\n".encode())
            output.flush()
            keep_short(log, LIMIT)
            sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))

    kept = [int(line) for path in (older, log) for line in path.read_text().splitlines()]
    assert max(sizes) <= 2 * LIMIT + 100
    assert kept == [number for number in range(200) for _ in range(2)][-len(kept) :]
    assert len(kept) * 31 > LIMIT


def test_a_short_log_and_none_at_all_are_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    keep_short(log, LIMIT)
    log.write_text("starting\n")

    keep_short(log, LIMIT)

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("driver.log", "starting\n")]
