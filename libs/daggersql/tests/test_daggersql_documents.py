"""The pages for analysts: every example does what the page says, and nothing is left out.

An example is a block of ```sql over the streams of tests/conformance/proto/corpus.proto. Its first line may
say `-- refused: CODE` or `-- warns: CODE`; one that says nothing is accepted without a warning.
"""

import ast
import re
from pathlib import Path

import pytest
from libs.daggersql.tests.daggersql_documents import DOCS, EXAMPLES, PAGES
from tests.conformance.corpus import tables

import daggersql
from daggersql import check
from daggersql.functions import registry

_SAYS = re.compile(r"-- (refused|warns): ([A-Z_]+(?: [A-Z_]+)*)\n")


def _codes_of_the_checker() -> set[str]:
    """Every code that is written out where a finding is made."""
    codes = set()
    for file in Path(daggersql.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("error", "warn", "QueryError") and re.fullmatch("[A-Z_]+", str(node.args[0].value)):
                codes.add(str(node.args[0].value))
    return codes


@pytest.mark.parametrize("place", EXAMPLES)
def test_an_example_of_a_page_is_judged_as_the_page_says(place: str) -> None:
    said = _SAYS.match(EXAMPLES[place])
    expected = (said is None or said[1] == "warns", set(said[2].split()) if said else set())

    checked = check(EXAMPLES[place], tables())

    assert (checked.plan is not None, {found.code for found in checked.findings}) == expected, (
        checked.findings
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_examples_that_are_accepted_and_examples_that_are_refused(page: str) -> None:
    kinds = {
        "-- refused" in text.splitlines()[0] for place, text in EXAMPLES.items() if place.startswith(page)
    }

    assert kinds == {True, False}


def test_every_code_of_the_checker_is_on_the_page() -> None:
    listed = set(re.findall(r"\b[A-Z_]+\b", (DOCS / "dialect.md").read_text(encoding="utf-8")))

    assert _codes_of_the_checker() - listed == set()


def test_every_function_is_on_the_page() -> None:
    page = (DOCS / "dialect.md").read_text(encoding="utf-8")
    named = {word.upper() for word in re.findall(r"[A-Za-z][A-Za-z0-9_]*", page)}

    assert {name.upper() for name in registry.known_names()} - named == set()
