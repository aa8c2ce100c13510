"""docs/security.md: each promise is held to by files of tests that are there and that run."""

from __future__ import annotations

import ast
import re

import pytest
from tests.documents.pages import ROOT, Page, slug

PAGE = Page(ROOT / "docs" / "security.md")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in [line for line in PAGE.section(slug("To whom")).splitlines() if line.startswith("| ")][1:]
]
WHO = {"a team", "an owner of sensitive fields", "an operator", "a person"}


def files(row: list[str]) -> list[str]:
    """The files of tests that a row names."""
    return re.findall(r"`([\w/.-]+/test_\w+\.py)`", row[2])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[1])[:60])
def test_each_promise_is_made_to_somebody_and_held_to_by_tests(row: list[str]) -> None:
    assert len(row) == 3
    assert row[0] in WHO
    assert row[1]
    assert files(row)
    assert row[2] == ", ".join(f"`{file}`" for file in files(row))
    for file in files(row):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        tests = [node for node in ast.walk(tree) if isinstance(node, functions) and "test_" in node.name]
        assert tests, file


def test_what_is_not_promised_is_said() -> None:
    assert len(re.findall(r"^\* \*\*", PAGE.section(slug("What is not promised")), re.M)) >= 8
    assert {row[0] for row in ROWS} == WHO
