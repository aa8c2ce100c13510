from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from runtime.errors import UNEXPECTED
from runtime.parent import Parent

# A process that starts the one below and dies; the one below explains a failure it has no words for.
DIES = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(3)"
EXPLAINS = """
import os, pathlib, time
from runtime.parent import Parent
parent, born_of = Parent(), os.getppid()
while os.getppid() == born_of and {waits}:
    time.sleep(0.05)
pathlib.Path({said!r}).write_text(parent.explain(TypeError("'JavaPackage' object is not callable")).reason)
"""


def explained(said: Path, *, waits: bool) -> str:
    subprocess.run(
        [sys.executable, "-c", DIES, EXPLAINS.format(waits=waits, said=str(said))],
        check=True,
        stdout=subprocess.PIPE,  # held open by both: `run` waits for both
    )
    return said.read_text()


def test_what_fails_after_the_parent_died_failed_of_that(tmp_path: Path) -> None:
    assert explained(tmp_path / "said", waits=True) == "JVM_GONE"


def test_a_parent_that_dies_a_moment_after_the_failure_is_waited_for(tmp_path: Path) -> None:
    assert explained(tmp_path / "said", waits=False) == "JVM_GONE"


def test_with_a_living_parent_the_failure_is_its_own_reason() -> None:
    assert Parent().explain(TypeError("'JavaPackage' object is not callable")).reason == UNEXPECTED
