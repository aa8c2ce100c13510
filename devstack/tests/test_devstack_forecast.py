"""The first run: how long it takes, no other program's log, and what to do next."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from cli.output.progress import Steps
from devstack.demo.forecast import announce_duration, further_steps
from devstack.tools import influxd, install, kafka
from devstack.tools.run import run

ROOT = Path(__file__).parents[2]


def test_the_demo_says_how_long_it_takes_and_what_is_installed_first(tmp_path: Path) -> None:
    first = announce_duration(60, tmp_path)
    for name in (kafka.NAME, influxd.NAME):
        (tmp_path / name).mkdir()

    assert first == (
        "the demo takes about 5 minutes on two cores: 60 s of events, and what is around them, for Kafka and"
        f" InfluxDB are installed first and kept in {tmp_path}"
    )
    assert announce_duration(60, tmp_path).startswith(
        "the demo takes about 2 minutes on two cores: 60 s of events"
    )
    assert "half a minute" not in announce_duration(1, tmp_path)


@pytest.mark.parametrize("stays_up", [False, True])
def test_the_demo_ends_with_what_next_and_each_step_is_there(stays_up: bool) -> None:
    first, *steps = further_steps(stays_up=stays_up).splitlines()
    named = [step.split("  ")[1] for step in steps]
    pages = [name for name in named if name.startswith("docs/")]
    commands = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")

    assert (first, len(steps) >= 3) == ("what next:", True)
    assert pages
    assert all((ROOT / page).is_file() for page in pages)
    assert all(f"## {name.partition(' --')[0]}\n" in commands for name in named if name not in pages)


def test_a_step_shows_seconds_and_keeps_the_tools_own_words_in_its_log(tmp_path: Path) -> None:
    seen: list[str] = []
    noisy = "for n in range(3): print(f'26/11/29 INFO SparkContext: Running {n}', flush=True)"
    run([sys.executable, "-c", noisy], log=tmp_path / "log", report=seen.append, failure="it failed")

    assert seen == ["0 s"] * 3
    assert (tmp_path / "log").read_text().count("INFO SparkContext") == 3


def test_what_was_built_is_kept_and_what_was_begun_goes_on(tmp_path: Path) -> None:
    built: list[list[str]] = []
    steps = Steps(Console(file=io.StringIO()))

    def build(part: Path, _: object) -> Path:
        built.append(sorted(each.name for each in part.iterdir()))
        (part / "cache").mkdir(exist_ok=True)
        if len(built) == 1:
            raise KeyboardInterrupt
        (part / "out").mkdir()
        return part / "out"

    with pytest.raises(KeyboardInterrupt):
        install._once(tmp_path / "tool", "a tool", build, steps)
    for _ in range(2):
        assert install._once(tmp_path / "tool", "a tool", build, steps) == tmp_path / "tool"

    assert built == [[], ["cache"]]  # the second begins with what the first has made, and there is no third


@pytest.mark.parametrize(
    ("command", "code", "output"), [("true", 0, "✓ a step"), ("ls /nowhere", 2, "/nowhere")]
)
def test_a_step_of_make_shows_seconds_and_its_programs_words_only_when_it_fails(
    tmp_path: Path, command: str, code: int, output: str
) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    step = makefile[makefile.index("define STEP") : makefile.index("endef", makefile.index("define STEP"))]
    shell = "SHELL := /bin/bash\n.SHELLFLAGS := -eu -o pipefail -c\n"
    rule = f"it:\n\t@$(call STEP,a step,echo noise && {command})\n"
    (tmp_path / "Makefile").write_text(f"{shell}{step}endef\n{rule}", encoding="utf-8")
    ran = subprocess.run(
        ["make", "--no-print-directory", "it"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )

    assert ran.returncode == code
    assert output in ran.stdout + ran.stderr
    assert ran.stdout.startswith("… a step\n")
    assert ("noise" in ran.stdout + ran.stderr) == (code != 0)
    if not code:
        assert re.search(r"✓ a step \d+ s\n$", ran.stdout)
