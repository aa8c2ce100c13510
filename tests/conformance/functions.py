"""Function cases: the reference's answer, and Spark's through the dialect, are both the one expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from tests.conformance import calls, elements
from tests.conformance.corpus import Corpus
from tests.conformance.elements import names_streams
from tests.conformance.engine import Engine
from tests.conformance.values import Pairs, agrees, plain, refusal

from daggersql import Severity
from runtime import udfs

# Reasons that the corpus gives a name of their own; the dialect's list of codes has one for all of them.
_CODES = {"INVALID_LEVEL": "INVALID_ARGUMENT", "INVALID_LENGTH": "INVALID_ARGUMENT"}


def by_reference(case: Mapping[str, Any], corpus: Corpus) -> str | None:
    """What is wrong with the plain reference's answer; None when it is the one expected."""
    if refusal(case["expected"]):
        return None  # what is refused when the query is checked has no answer
    reference = udfs.load(case["udf"].lower()).reference
    rows = [tuple(map(_python, row)) for row in case["args"]] if case["kind"] == "aggregate" else None
    if names_streams(case):
        return _compared(case, reference(*elements.arguments(case, corpus)), "the reference")
    answer = reference(rows) if rows is not None else reference(*map(_python, case["args"]))
    return _compared(case, answer, "the reference")


def by_spark(case: Mapping[str, Any], corpus: Corpus, engine: Engine) -> str | None:
    """What is wrong with the answer that a query gets; None when it is the one expected."""
    reason = refusal(case["expected"])
    if reason is not None:
        return _refused(case, corpus, reason)
    question = elements.ask(case, corpus) if names_streams(case) else calls.ask(case)
    plan = question.checked.plan
    if plan is None:
        first = next(each for each in question.checked.findings if each.severity is Severity.ERROR)
        return f"no way to call it is accepted: {first.code} {first.message}"
    rows = engine.answer(plan, {question.name: question.rows}).to_pylist()
    if case["kind"] == "table":
        found: Any = [list(row.values())[: len(plan.columns)] for row in rows]
    else:
        found = rows[0]["v"] if rows else None
    return _compared(case, found, "Spark", widened=question.widened)


def _refused(case: Mapping[str, Any], corpus: Corpus, reason: str) -> str | None:
    try:
        question = elements.ask(case, corpus) if names_streams(case) else calls.ask_with_constants(case)
    except KeyError:
        # No stream can be made of a message that does not exist: the gateway refuses it with that reason.
        return None if reason == "UNKNOWN_MESSAGE" else "names a message that does not exist"
    checked = question.checked
    codes = [each.code for each in checked.findings if each.severity is Severity.ERROR]
    if not codes:
        return f"is accepted, not refused with {reason}"
    return None if _CODES.get(reason, reason) in codes else f"is refused with {codes[0]}, not {reason}"


def _compared(case: Mapping[str, Any], answer: Any, who: str, *, widened: bool = False) -> str | None:
    expected = case["expected"]
    if widened and isinstance(expected, int | float):
        expected = str(expected)
    if agrees(expected, answer, case.get("compare", "exact"), case.get("tol", 1e-9)):
        return None
    return f"{who} gives {answer!r}, not {plain(expected)!r}"


def _python(raw: Any) -> Any:
    """An argument as references take it: a map is a dict."""
    value = plain(raw)
    return value.as_dict() if isinstance(value, Pairs) else value


def decoded(values: list[bytes], message: str, corpus: Corpus) -> list[dict[str, Any]]:
    """Encoded messages as the JSON that a case shows."""
    make = GetMessageClass(corpus.message(message))
    return [MessageToDict(make.FromString(value), preserving_proto_field_name=True) for value in values]
