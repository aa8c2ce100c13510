from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from chassis.crash import describe, last_report

CANARY = "canary-7c1e"
CRASHES = f'''
import sys

def read(secret):
    sys.stderr.write(f"a library quotes {{secret}}\\n" * 3_000)
    raise ConnectionError(f"refused with {{secret}}")

def main():
    assert sys.argv[1:] == ["--sink", "one"]
    try:
        int("{CANARY}")
    except ValueError:
        read("{CANARY}")

main()
'''


async def run(folder: Path, module: str) -> tuple[int, str]:
    """Run a module of a folder as a helper; the exit code, and what is reported."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "chassis.crash", module, "--sink", "one", cwd=folder, stderr=PIPE
    )
    assert process.stderr is not None
    report = await last_report(process.stderr)
    return await process.wait(), report


async def test_a_crash_tells_its_type_and_its_last_frames_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(CRASHES)

    code, report = await run(tmp_path, "helper")

    place = re.escape(f"{tmp_path.name}/helper.py")
    assert code == 1
    assert re.fullmatch(
        rf"ConnectionError at {place}:6 in read < {place}:13 in main < {place}:15 in <module>", report
    )
    assert CANARY not in report


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("print('daggers crash: canary is the password', file=__import__('sys').stderr)", 0),
    ],
)
async def test_what_is_no_crash_reports_nothing(tmp_path: Path, source: str, code: int) -> None:
    (tmp_path / "helper.py").write_text(source)

    assert await run(tmp_path, "helper") == (code, "")


async def test_a_module_that_cannot_be_loaded_says_so(tmp_path: Path) -> None:
    code, report = await run(tmp_path, "no_such_module")

    assert (code, report.partition(" ")[0]) == (1, "ImportError")


def test_an_error_that_was_never_raised_has_a_type_alone() -> None:
    assert describe(ValueError(CANARY)) == "ValueError"
