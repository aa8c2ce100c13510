"""CONTRIBUTING.md: the first change can be made as it is told, and the files of a request's way are there."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from tests.documents.pages import ROOT, Page, tracked
from tests.recipes.tree import copied

CONTRIBUTING = Page(ROOT / "CONTRIBUTING.md")
FIRST_CHANGE = CONTRIBUTING.section("your-first-change-in-ten-minutes")
WAY = CONTRIBUTING.section("how-a-request-travels-with-file-names")
_STEP = re.compile(r"^\|.* \| `([^`|]+\.py)` \| (`[^|]+`) \|$", re.MULTILINE)
PLACES = [(file, re.findall(r"`([^`]+)`", names)) for file, names in _STEP.findall(WAY)]


@lru_cache
def defined(file: str) -> frozenset[str]:
    """What a file defines: its functions and classes, and methods as `Class.method`."""
    return frozenset(_names(ast.parse((ROOT / file).read_text(encoding="utf-8")).body))


def _names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{name}" for name in _names(node.body))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def test_every_row_of_the_way_is_read_and_every_service_of_it_has_one() -> None:
    rows = [line for line in WAY.splitlines() if line.startswith("|")]
    services = {file.split("/")[1] for file, _ in PLACES if file.startswith("services/")}

    assert len(PLACES) == len(rows) - 6  # three tables, each with a head and a rule
    assert services == {"api-gateway", "scheduler", "runtime", "health-monitor"}


@pytest.mark.parametrize(("file", "names"), PLACES, ids=lambda each: each if isinstance(each, str) else "")
def test_a_step_of_the_way_is_in_its_file(file: str, names: list[str]) -> None:
    assert file in tracked()
    assert [name for name in names if name not in defined(file)] == []


def test_a_name_that_is_not_there_is_found() -> None:
    file = "libs/fleet/src/fleet/decide/reconcile.py"

    assert "next_action" in defined(file)
    assert "nowhere" not in defined(file)


def test_the_first_change_fails_as_a_test_and_passes_when_it_is_made(tmp_path: Path) -> None:
    tree = copied(tmp_path)
    commands = re.findall(r"^\$ \.venv/bin/(pytest .+)$", FIRST_CHANGE, re.MULTILINE)
    [looked, reviewed] = [shlex.split(command) for command in commands]
    [test, change] = re.findall(r"^```diff\n(.*?)^```", FIRST_CHANGE, re.MULTILINE | re.DOTALL)

    assert " passed" in tree.run(looked)
    apply(test, tmp_path)
    with pytest.raises(AssertionError, match=r"1 failed, 6 passed"):
        tree.run(looked)
    apply(change, tmp_path)
    assert "7 passed" in tree.run(looked)
    assert " passed" in tree.run(reviewed)


def apply(patch: str, folder: Path) -> None:
    """Make the edits of a diff in a folder, at the lines that it says."""
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=folder, input=patch, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
