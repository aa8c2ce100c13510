"""The names of a run directory are told in one place."""

import re
from pathlib import Path

from daggerspec import rundir

ROOT = Path(__file__).parents[3]
FILES = (
    rundir.SPEC,
    rundir.IDENTITY,
    rundir.LOG,
    rundir.OLDER_LOG,
    rundir.DRIVER,
    rundir.EXIT,
    rundir.EXIT_CODE,
)


def test_nobody_else_writes_the_name_of_what_lies_in_a_run_directory() -> None:
    files = "|".join(map(re.escape, FILES))
    written = re.compile(rf"""run_dir\)? / f?["']|["']({files})["']""")
    sources = [
        *ROOT.glob("libs/*/src"),
        *ROOT.glob("services/*/src"),
        ROOT / "cli/src",
        ROOT / "devstack/src",
    ]
    texts = {file: file.read_text(encoding="utf-8") for folder in sources for file in folder.rglob("*.py")}

    assert {file.name for file, text in texts.items() if written.search(text)} == {"rundir.py"}
