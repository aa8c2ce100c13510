"""The public corpus: what is accepted, what is refused, and where."""

from typing import Any

import pytest
from tests.conformance.corpus import cases, tables

from daggersql import CheckResult, Severity, check

ACCEPT = {case["id"]: case for case in cases("sql_accept")}
REJECT = {case["id"]: case for case in cases("sql_reject")}
# Let through, as the corpus allows: a warning, or only for one kind of sink.
WARNED = {"REJ-252", "REJ-286"}


def _places(case: dict[str, Any]) -> list[tuple[int, int]]:
    expected = case["expect"]
    return [(expected["line"], expected["column"]), *(tuple(span) for span in expected.get("also", []))]


def _says(case: dict[str, Any], checked: CheckResult) -> bool:
    """Whether a finding has the code, and for class `wrong` the place, that the case asks for."""
    codes = {case["expect"]["reason"], *case.get("reason_any", [])}
    hits = [finding for finding in checked.findings if finding.code in codes]
    if case["class"] != "wrong" or "column_of" in case:
        return bool(hits)
    return any((finding.line, finding.column) in _places(case) for finding in hits)


@pytest.mark.parametrize("name", sorted(ACCEPT))
def test_a_query_of_the_corpus_is_accepted_with_its_columns(name: str) -> None:
    checked = check(ACCEPT[name]["sql"], tables(*ACCEPT[name]["streams"]))
    errors = [finding for finding in checked.findings if finding.severity is Severity.ERROR]

    assert errors == []
    assert [column.name for column in checked.plan.columns] == ACCEPT[name]["expect_columns"]  # type: ignore[union-attr]  # no errors: a plan


@pytest.mark.parametrize("name", sorted(set(REJECT) - WARNED))
def test_a_text_of_the_corpus_is_refused(name: str) -> None:
    assert check(REJECT[name]["sql"], tables()).plan is None


@pytest.mark.parametrize("name", sorted(name for name, case in REJECT.items() if case["class"] == "wrong"))
def test_what_is_wrong_is_said_with_code_and_place(name: str) -> None:
    said = _says(REJECT[name], check(REJECT[name]["sql"], tables()))

    assert said


@pytest.mark.parametrize("name", sorted(WARNED))
def test_what_may_pass_passes_with_a_warning(name: str) -> None:
    checked = check(REJECT[name]["sql"], tables())

    assert checked.plan is not None
    assert REJECT[name]["expect"]["reason"] in {finding.code for finding in checked.plan.warnings}


def test_most_other_refusals_have_the_corpus_code_too() -> None:
    others = [case for case in REJECT.values() if case["class"] != "wrong"]
    missed = {case["id"] for case in others if not _says(case, check(case["sql"], tables()))}

    assert missed == set()
