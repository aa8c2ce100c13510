"""Decisions: titles say the subsystem, the status is true to what is there, and the index is made of both."""

from __future__ import annotations

import re

import pytest
from tests.documents import decisions
from tests.documents.decisions import FOLDER, SUBSYSTEMS, Decision
from tests.documents.pages import ROOT

ALL = decisions.decisions()
REPLACED = [decision for decision in ALL if decision.status == "replaced by"]
FILES = {decision.number: decision.file for decision in ALL}
GOOD = "# 7. Sinks: a row is written once\n\nStatus: accepted\n\n**Decided.** So.\n"


@pytest.mark.parametrize("decision", ALL, ids=lambda decision: decision.file)
def test_a_title_has_the_number_of_its_file_a_known_subsystem_and_a_sentence(decision: Decision) -> None:
    assert decision.file.startswith(f"{decision.number:04}-")
    assert decision.subsystem in SUBSYSTEMS
    assert 20 <= len(decision.sentence) <= 100
    assert not decision.sentence.endswith(".")


@pytest.mark.parametrize("decision", ALL, ids=lambda decision: decision.file)
def test_a_status_names_later_decisions_that_are_there(decision: Decision) -> None:
    assert bool(decision.later) == (decision.status != "accepted")
    assert [(number, FILES.get(number)) for number, _ in decision.later] == list(decision.later)
    assert all(number > decision.number for number, _ in decision.later)


@pytest.mark.parametrize("decision", REPLACED, ids=lambda decision: decision.file)
def test_a_decision_that_is_replaced_is_one_line(decision: Decision) -> None:
    assert len(decision.later) == 1
    assert len(decision.body.splitlines()) == 1


def test_titles_are_told_apart_and_every_subsystem_has_one() -> None:
    sentences = [(decision.subsystem, decision.sentence) for decision in ALL]

    assert len(sentences) == len(set(sentences))
    assert {decision.subsystem for decision in ALL} == set(SUBSYSTEMS)


def test_a_subsystem_is_where_the_index_says() -> None:
    folders = [span for about in SUBSYSTEMS.values() for span in re.findall(r"`([^`]+)`", about)]

    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_the_index_is_up_to_date() -> None:
    assert (FOLDER / "README.md").read_text("utf-8") == decisions.text(), "run `make decisions-index`"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (GOOD.replace("Sinks: ", ""), "does not begin with"),
        (GOOD.replace("# 7. ", "# "), "does not begin with"),
        (GOOD.replace("Status: accepted\n\n", ""), "has no status"),
        (GOOD.replace("accepted", "abandoned"), "has no status"),
    ],
    ids=["no subsystem", "no number", "no status", "another status"],
)
def test_what_is_no_decision_is_refused_with_its_file(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=rf"0007-x\.md {wrong}"):
        decisions.parse("0007-x.md", text)


def test_a_decision_that_is_replaced_says_so_in_the_index() -> None:
    text = GOOD.replace("accepted", "replaced in part by [8](0008-y.md) (twice);\n[9](0009-z.md) (never)")

    assert str(decisions.parse("0007-x.md", text)) == (
        "* [7](0007-x.md): a row is written once *(replaced in part by 8, 9)*"
    )
