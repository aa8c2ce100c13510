"""Benches run seldom: what they import is there, and no name of theirs hides a package."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType

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


@pytest.fixture(scope="module")
def publish() -> ModuleType:
    """bench/publish.py."""
    spec = importlib.util.spec_from_file_location("bench_publish", ROOT / "bench" / "publish.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their names
    spec.loader.exec_module(module)
    return module


def test_the_targets_of_the_page_are_what_its_outputs_say(publish: ModuleType) -> None:
    text = publish.PAGE.read_text("utf-8")

    assert publish.with_targets(text) == text
    assert all(publish.placed(text, name, "x\n") != text for name in publish.RUNS)
    assert {target.bench for target in publish.TARGETS} <= set(publish.RUNS)


def test_an_output_stands_in_the_page_word_for_word_and_its_targets_are_judged(publish: ModuleType) -> None:
    text = "<!-- targets -->\n\n<!-- bench idle -->\n```\nbefore\n```\nbehind\n"
    output = (
        "idle dagger, 1 s trigger: 661 MiB, 0.010 cores\n\\1 $ end of window to row in the sink, p95 6.2 s,\n"
    )
    placed = publish.placed(text, "idle", output)
    table = publish.with_targets(placed)

    assert placed == text.replace("before\n", output)
    assert "| 661 MiB | **not met** | `idle` |" in table
    assert "| 6.2 s | met | `idle` |" in table
    assert "|  | not measured | `seed` |" in table
    assert publish.with_targets(table) == table
