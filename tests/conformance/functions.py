"""Function cases: the reference's answer, and Spark's through the dialect, are both the one expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from tests.conformance import calls
from tests.conformance.corpus import Corpus
from tests.conformance.engine import Engine
from tests.conformance.values import Pairs, agrees, plain, refusal, tag

from daggersql import CheckResult, Severity
from runtime import functions
from runtime.references import InvalidContent, Tables

# Reasons that the corpus gives a name of their own; the dialect's list of codes has one for all of them.
_CODES = {"INVALID_LEVEL": "INVALID_ARGUMENT", "INVALID_LENGTH": "INVALID_ARGUMENT"}
_TYPED = ("features", "featureswithtype", "singlefeaturewithtype")
_OF_MESSAGES = ("filters", "selectfields")


def by_reference(case: Mapping[str, Any], corpus: Corpus) -> str | None:
    """What is wrong with the plain reference's answer; None when it is the one expected."""
    if refusal(case["expected"]):
        return None  # what is refused when the query is checked has no answer
    name, context = case["udf"].lower(), _context(case, corpus)
    if case.get("given", {}).get("calls"):
        answer: Any = {
            "results": [_reference(name, args, context) for args in case["args"]],
            "loads": context["tables"].loads,
        }
    elif case["kind"] == "aggregate":
        rows = [tuple(_python(value, name) for value in row) for row in case["args"]]
        answer = functions.load(name).reference(rows)
    elif "tables" in case.get("given", {}):
        rest = [_python(value, name) for value in case["args"][1:]]
        answer = functions.load(name).reference(calls.of_streams(case, corpus), *rest)
    else:
        answer = _reference(name, case["args"], context)
    return _compared(case, _shown(case, answer, corpus), "the reference")


def by_spark(case: Mapping[str, Any], corpus: Corpus, engine: Engine) -> str | None:
    """What is wrong with the answer that a query gets; None when it is the one expected."""
    reason = refusal(case["expected"])
    if reason is not None:
        return _refused(case, reason, corpus, engine)
    if case.get("given", {}).get("calls"):
        return next(filter(None, (by_spark(call, corpus, engine) for call in _single_calls(case))), None)
    (question,) = asked(case, corpus)
    if question.checked.plan is None:
        first = next(finding for finding in question.checked.findings if finding.severity is Severity.ERROR)
        return f"no way to call it is accepted: {first.code} {first.message}"
    found = _answer(case, question, engine)
    return _compared(case, _shown(case, found, corpus), "Spark", widened=question.widened)


def asked(case: Mapping[str, Any], corpus: Corpus) -> list[calls.Question]:
    """The queries that ask for what a case expects: one for each call; none when it has to be refused."""
    if refusal(case["expected"]) is not None:
        return []
    single = _single_calls(case) if case.get("given", {}).get("calls") else [case]
    return [calls.ask(_as_asked(each), corpus) for each in single]


# --- questions and answers -------------------------------------------------------------------------------


def _single_calls(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A case of several calls, call by call: how often a table is read is for the reference to show."""
    given = {key: value for key, value in case["given"].items() if key != "calls"}
    return [
        {**case, "args": args, "expected": result, "given": given}
        for args, result in zip(case["args"], case["expected"]["results"], strict=True)
    ]


def _as_asked(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """The case as SQL can ask it: CondEq stands inside Filters."""
    if case["udf"] != "CondEq":
        return case
    message = case["given"]["message"]
    arguments = [[message], message["$proto"]["type"], {"$cond_eq": case["args"]}]
    return {**case, "udf": "Filters", "args": arguments}


def _answer(case: Mapping[str, Any], question: calls.Question, engine: Engine) -> Any:
    plan = question.checked.plan
    assert plan is not None
    given = case.get("given", {}).get("reference", {})
    rows = engine.answer(plan, {question.view: question.rows}, given).to_pylist()
    if case["kind"] == "table":
        return [list(row.values())[: len(plan.columns)] for row in rows]
    return rows[0]["v"] if rows else None


def _refused(case: Mapping[str, Any], reason: str, corpus: Corpus, engine: Engine) -> str | None:
    """A constant is refused when the query is checked. Data is not: it gives NULL, or no row."""
    try:
        question = calls.ask_with_constants(_as_asked(case), corpus)
    except KeyError:
        return None if reason == "UNKNOWN_MESSAGE" else f"names an unknown message, not {reason}"
    codes = _errors(question.checked)
    if codes:
        return None if _CODES.get(reason, reason) in codes else f"is refused with {codes[0]}, not {reason}"
    if reason == "REFERENCE_INVALID":
        return _invalid_content(case, corpus)
    if not question.only_constants and not (found := _answer(case, question, engine)):
        return None if found in (None, []) else f"gives {found!r}, not NULL"
    return f"is accepted, not refused with {reason}"


def _invalid_content(case: Mapping[str, Any], corpus: Corpus) -> str | None:
    """What stands in a reference table is known when it is read."""
    try:
        _reference(case["udf"].lower(), case["args"], _context(case, corpus))
    except InvalidContent:
        return None
    return "takes a reference table of the wrong shape"


def _errors(checked: CheckResult) -> list[str]:
    return [found.code for found in checked.findings if found.severity is Severity.ERROR]


# --- references ------------------------------------------------------------------------------------------


def _reference(name: str, args: Sequence[Any], context: Mapping[str, Any]) -> Any:
    return functions.load(name).reference(*(_python(value, name) for value in args), **context)


def _context(case: Mapping[str, Any], corpus: Corpus) -> dict[str, Any]:
    """What a reference is told beside its arguments."""
    given, name = case.get("given", {}), case["udf"].lower()
    if name == "condeq":
        message = given["message"]
        return {"message": plain(message), "kind": message["$proto"]["type"], "pool": corpus.messages}
    if name in _OF_MESSAGES:
        return {"pool": corpus.messages}
    if name in ("dartget", "dartcontains"):
        return {"tables": Tables(lambda table: given["reference"][table], lambda: 0.0)}
    return {}


def _python(raw: Any, name: str) -> Any:
    """An argument as references take it: a map is a dict; where types matter, numbers know theirs."""
    match tag(raw), raw:
        case "$cond_eq", {"$cond_eq": [path, value]}:
            return path, plain(value)
        case "$float32", _ if name in _TYPED:
            return np.float32(plain(raw))
        case "$long", _ if name in _TYPED:
            return np.int64(plain(raw))
    value = plain(raw)
    return value.as_dict() if isinstance(value, Pairs) else value


# --- comparison ------------------------------------------------------------------------------------------


def _shown(case: Mapping[str, Any], answer: Any, corpus: Corpus) -> Any:
    """The answer in the form in which the case has it: messages as JSON, a kept message as TRUE."""
    if case["udf"] == "CondEq" and isinstance(answer, list):
        return len(answer) == 1
    if case["udf"] == "Filters" and isinstance(answer, list):
        make = GetMessageClass(corpus.message(case["args"][1]))
        return [MessageToDict(make.FromString(value), preserving_proto_field_name=True) for value in answer]
    return answer


def _compared(case: Mapping[str, Any], answer: Any, who: str, *, widened: bool = False) -> str | None:
    expected = case["expected"]
    if widened and isinstance(expected, int | float):
        expected = str(expected)
    if agrees(expected, answer, case.get("compare", "exact"), case.get("tol", 1e-9)):
        return None
    return f"{who} gives {answer!r}, not {plain(expected)!r}"
