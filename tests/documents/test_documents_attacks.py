"""The table of holes: the attack on each is a test that is there and that runs."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

import pytest
from tests.documents.pages import ROOT, Page, slug

SECTION = Page(ROOT / "docs" / "tested.md").section(slug("Attacks"))
# Below the head of the table and its rule.
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in [line for line in SECTION.splitlines() if line.startswith("| ")][1:]
]


@lru_cache
def running(file: str) -> frozenset[str]:
    """The tests that a file has and that nothing switches off."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    switched_off = re.compile(r"mark\.(skip|xfail)\b")
    return frozenset(
        function.name
        for function in functions
        if not any(switched_off.search(ast.unparse(decorator)) for decorator in function.decorator_list)
    )


def attacks(row: list[str]) -> list[tuple[str, str]]:
    """File and name of each test that a row names."""
    return re.findall(r"`([\w/.-]+\.py)::(test_\w+)`", row[2])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_each_hole_is_closed_by_something_and_attacked_by_a_test(row: list[str]) -> None:
    assert len(row) == 3
    assert all(row)
    assert attacks(row)
    assert [(file, name) for file, name in attacks(row) if name not in running(file)] == []


def test_no_hole_stands_there_twice() -> None:
    holes = [row[0] for row in ROWS]

    assert len(holes) > 20
    assert len(holes) == len(set(holes))
