"""Each finding is one sentence, which ends once; what to write instead is its suggestion alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from libs.daggersql.tests.daggersql_documents import EXAMPLES
from tests.conformance.corpus import tables

import daggersql
from daggersql import check
from daggersql.findings import Report
from daggersql.functions import registry

SOURCES = Path(daggersql.__file__).parent
SAY = ("error", "warn", "object_to", "_object", "_refuse", "Refused")
_SECOND = re.compile(r"[.?!] +[A-Z`{<]")
"""Begin of a second sentence, behind the end of the first."""


def _text(node: ast.expr) -> str:
    """Return the text of a message, with what is filled in between angle brackets."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
    return f"<{ast.unparse(node)}>"


def _messages() -> Iterator[tuple[str, str]]:
    """File and line of each message that is written where it is said, or in a name of its module, and it."""
    for file in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        named = {
            node.targets[0].id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name not in SAY:
                continue
            for argument in node.args[1:3]:
                value = named.get(argument.id, argument) if isinstance(argument, ast.Name) else argument
                text = _text(value)
                if " " in text and not text.startswith("<"):
                    yield f"{file.relative_to(SOURCES)}:{node.lineno}", text


MESSAGES = list(_messages())


def test_a_message_is_one_sentence_that_asks_nothing() -> None:
    """Ask nobody what was meant: it is suggested, as a button of the pages or a last line."""
    assert len(MESSAGES) > 200  # else they are written in another way, and none was looked at
    wrong = [each for each in MESSAGES if _SECOND.search(each[1]) or "?" in each[1] or "did you" in each[1]]
    assert wrong == []


def test_a_warning_of_a_function_is_one_sentence() -> None:
    warnings = [function.warning for name in registry.known_names() if (function := registry.find(name))]
    texts = [warning for warning in warnings if warning]

    assert len(texts) > 3
    assert [each for each in texts if _SECOND.search(each) or not each.endswith(".")] == []


@pytest.mark.parametrize("text", ["It is wrong", "It is wrong.", "It is wrong..", "It is wrong. "])
def test_a_finding_ends_once_however_it_was_written(text: str) -> None:
    report = Report("SELECT 1")
    report.error("SYNTAX_ERROR", (0, 1), text)
    report.warn("SYNTAX_ERROR", (0, 1), text)

    assert [finding.message for finding in report.findings()] == ["It is wrong."] * 2


@pytest.mark.parametrize("place", EXAMPLES)
def test_what_is_found_in_an_example_of_the_pages_is_one_sentence(place: str) -> None:
    messages = [finding.message for finding in check(EXAMPLES[place], tables()).findings]
    one_sentence = re.compile(r"(?:(?!\. [A-Z]).)*[^.?!]\.", re.DOTALL)

    assert [each for each in messages if not one_sentence.fullmatch(each)] == []


@pytest.mark.parametrize(
    ("sql", "message", "suggestion"),
    [
        ("SELECT fair FROM bookings", "There is no column fair in bookings.", "fare"),
        ("SELECT fare FROM bookngs", "The dagger has no stream called bookngs.", "bookings"),
        ("SELECT UPER(driver_id) AS x FROM bookings", "There is no function UPER.", "UPPER"),
        ("SELECT fare form bookings", "'bookings' is not expected here.", "FROM"),
        (
            'SELECT fare FROM bookings WHERE driver_id = "x"',
            "Names are quoted with backticks, text with single quotes.",
            "'x'",
        ),
    ],
)  # fmt: skip
def test_what_was_meant_is_the_suggestion_alone(sql: str, message: str, suggestion: str) -> None:
    (finding,) = check(sql, tables()).findings

    assert (finding.message, finding.suggestion) == (message, suggestion)
