"""Filters of ListDaggers, as conditions of a query, and the scope of its page tokens. Pure.

Programs filter by fields of the request. People write a filter, terms joined by AND: phase=RUNNING,
team=pricing, cluster=local, name=completed*, text=bookings. A value with spaces stands in double quotes. Each
word of `text` must occur in the name, the team or the cluster; or in the authors, streams, topics or sinks of
daggers that the caller may read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from daggers.v1 import gateway_pb2
from sqlalchemy import and_, func, or_
from sqlmodel import col

from api_gateway.state.tables import DaggerRow
from daggerspec.violation import Violation

MAX_FILTER: Final = 1_000
_TERM: Final = re.compile(r'\s*(?P<field>[a-z_]+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s"]+))\s*')
_AND: Final = re.compile(r"AND(?=\s|$)")
_COLUMNS: Final[dict[str, Any]] = {
    "phase": col(DaggerRow.phase),
    "team": col(DaggerRow.team),
    "cluster": col(DaggerRow.cluster),
    "name": col(DaggerRow.name),
}
_TEXT: Final = "text"
_OPEN: Final = (col(DaggerRow.name), col(DaggerRow.team), col(DaggerRow.cluster))
"""Columns that every caller may read."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a filter."""

    field: str
    value: str
    prefix: bool
    """True where the value is a prefix of what is searched."""


def parse(path: str, text: str) -> tuple[list[Term], list[Violation]]:
    """Parse a filter into its terms, and collect what is wrong with it."""
    if len(text) > MAX_FILTER:
        return [], [Violation(path, f"must not be longer than {MAX_FILTER} characters", "TOO_LONG")]
    terms: list[Term] = []
    violations: list[Violation] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        if terms or violations:
            joined = _AND.match(text, position)
            if joined is None:
                return terms, [*violations, _syntax(path, position)]
            position = joined.end()  # another term must follow
        match = _TERM.match(text, position)
        if match is None:
            return terms, [*violations, _syntax(path, position)]
        position = match.end()
        value = match["plain"] if match["quoted"] is None else match["quoted"]
        prefix = match["field"] == "name" and value.endswith("*")
        term = Term(match["field"], value[:-1] if prefix else value, prefix)
        wrong = _find_problem(path, term)
        if wrong is None:
            terms.append(term)
        else:
            violations.append(wrong)
    return terms, violations


def conditions(terms: Sequence[Term], readable: Collection[str] | None) -> list[Any]:
    """Convert terms to conditions of a query on `DaggerRow`. `readable`: teams that
    `Gate.readable` returns.
    """
    wanted: list[Any] = []
    for term in terms:
        if term.field == _TEXT:
            wanted += [_contains_word(word, readable) for word in term.value.lower().split()]
        elif term.prefix:
            wanted.append(_COLUMNS[term.field].startswith(term.value, autoescape=True))
        else:
            wanted.append(_COLUMNS[term.field] == term.value)
    return wanted


def _contains_word(word: str, readable: Collection[str] | None) -> Any:
    """Build the condition that a word occurs in what the caller may read: results of a search reveal its
    text.
    """
    text = col(DaggerRow.text).contains(word, autoescape=True)
    if readable is not None:
        text = and_(col(DaggerRow.team).in_(sorted(readable)), text)
    return or_(*(func.lower(column).contains(word, autoescape=True) for column in _OPEN), text)


def check_phases(path: str, request: gateway_pb2.ListDaggersRequest) -> list[Violation]:
    """Return violations for unknown phases: an enum of Protobuf may be any number."""
    return [
        Violation(f"{path}[{number}]", f"{phase} is no phase", "UNKNOWN_ENUM_VALUE")
        for number, phase in enumerate(request.phases)
        if phase not in gateway_pb2.Phase.values()[1:]
    ]


def field_conditions(request: gateway_pb2.ListDaggersRequest) -> list[Any]:
    """Convert the fields of a request to conditions of a query on `DaggerRow`."""
    wanted = [_COLUMNS[name] == value for name in ("team", "cluster") if (value := getattr(request, name))]
    if request.name_prefix:
        wanted.append(_COLUMNS["name"].startswith(request.name_prefix, autoescape=True))
    if request.phases:
        wanted.append(_COLUMNS["phase"].in_([gateway_pb2.Phase.Name(phase) for phase in request.phases]))
    return wanted


def scope(request: gateway_pb2.ListDaggersRequest) -> str:
    """Return the text that a page token is valid for: the filter and the fields."""
    fields = gateway_pb2.ListDaggersRequest(
        phases=sorted(set(request.phases)),
        team=request.team,
        cluster=request.cluster,
        name_prefix=request.name_prefix,
    ).SerializeToString(deterministic=True)
    return f"{request.filter}\n{fields.hex()}" if fields else request.filter


def _find_problem(path: str, term: Term) -> Violation | None:
    if term.field not in (*_COLUMNS, _TEXT):
        allowed = ", ".join((*_COLUMNS, _TEXT))
        return Violation(path, f"{term.field} cannot be filtered by: use {allowed}", "UNKNOWN_FIELD")
    if term.field == "phase" and term.value not in gateway_pb2.Phase.keys():  # noqa: SIM118 - an enum wrapper
        allowed = ", ".join(gateway_pb2.Phase.keys()[1:])
        return Violation(path, f"{term.value} is not a phase: use {allowed}", "UNKNOWN_ENUM_VALUE")
    return None


def _syntax(path: str, position: int) -> Violation:
    return Violation(
        path,
        f"is not understood at character {position + 1}: write a=b AND c=d",
        "SYNTAX_ERROR",
    )
