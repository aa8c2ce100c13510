"""Benches run seldom: what they import is there, and no name of theirs hides a package."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.documents import names
from tests.documents.pages import ROOT

BENCHES = [path for path in sorted((ROOT / "bench").glob("*.py")) if "__main__" in path.read_text("utf-8")]


@pytest.mark.parametrize("bench", [bench.name for bench in BENCHES])
def test_a_bench_starts(bench: str) -> None:
    # as a user starts it: bench/ is searched first for what it imports
    command = [sys.executable, ROOT / "bench" / bench, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


def test_no_module_of_bench_has_the_name_of_a_package() -> None:
    modules = {path.stem for path in (ROOT / "bench").glob("*.py")}

    assert modules & set(names.packages()) == set()
