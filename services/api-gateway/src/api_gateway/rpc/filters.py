"""Which daggers ListDaggers is asked for, and what its page tokens are good for. Pure.

Programs say it in fields of the request. People write a filter, terms joined by AND: phase=RUNNING,
team=pricing, cluster=local, name=completed*, text=bookings. A value with spaces stands in double quotes.
`text` is for words, each of which is somewhere: in the name, the team or the cluster; in who made it,
streams, topics or sinks where who asks may know of those.
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
"""What everybody may know of a dagger."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition."""

    field: str
    value: str
    prefix: bool
    """Whether the value is the beginning of what is looked for."""


def parse(path: str, text: str) -> tuple[list[Term], list[Violation]]:
    """The terms of a filter, and what is wrong with it."""
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
            position = joined.end()  # and another term must follow
        match = _TERM.match(text, position)
        if match is None:
            return terms, [*violations, _syntax(path, position)]
        position = match.end()
        value = match["plain"] if match["quoted"] is None else match["quoted"]
        prefix = match["field"] == "name" and value.endswith("*")
        term = Term(match["field"], value[:-1] if prefix else value, prefix)
        wrong = _judge(path, term)
        if wrong is None:
            terms.append(term)
        else:
            violations.append(wrong)
    return terms, violations


def conditions(terms: Sequence[Term], readable: Collection[str] | None) -> list[Any]:
    """The terms as conditions of a query on `DaggerRow`. `readable`: as `Gate.readable` says."""
    wanted: list[Any] = []
    for term in terms:
        if term.field == _TEXT:
            wanted += [_says(word, readable) for word in term.value.lower().split()]
        elif term.prefix:
            wanted.append(_COLUMNS[term.field].startswith(term.value, autoescape=True))
        else:
            wanted.append(_COLUMNS[term.field] == term.value)
    return wanted


def _says(word: str, readable: Collection[str] | None) -> Any:
    """Whether a word is somewhere in what who asks may know of a dagger: what is found by it tells it."""
    text = col(DaggerRow.text).contains(word, autoescape=True)
    if readable is not None:
        text = and_(col(DaggerRow.team).in_(sorted(readable)), text)
    return or_(*(func.lower(column).contains(word, autoescape=True) for column in _OPEN), text)


def check_phases(path: str, request: gateway_pb2.ListDaggersRequest) -> list[Violation]:
    """What is wrong with the phases of a request: an enum may be any number."""
    return [
        Violation(f"{path}[{number}]", f"{phase} is no phase", "UNKNOWN_ENUM_VALUE")
        for number, phase in enumerate(request.phases)
        if phase not in gateway_pb2.Phase.values()[1:]
    ]


def asked(request: gateway_pb2.ListDaggersRequest) -> list[Any]:
    """The fields of a request as conditions of a query on `DaggerRow`."""
    wanted = [_COLUMNS[name] == value for name in ("team", "cluster") if (value := getattr(request, name))]
    if request.name_prefix:
        wanted.append(_COLUMNS["name"].startswith(request.name_prefix, autoescape=True))
    if request.phases:
        wanted.append(_COLUMNS["phase"].in_([gateway_pb2.Phase.Name(phase) for phase in request.phases]))
    return wanted


def scope(request: gateway_pb2.ListDaggersRequest) -> str:
    """What a page token is good for: the filter, and what the fields say."""
    fields = gateway_pb2.ListDaggersRequest(
        phases=sorted(set(request.phases)),
        team=request.team,
        cluster=request.cluster,
        name_prefix=request.name_prefix,
    ).SerializeToString(deterministic=True)
    return f"{request.filter}\n{fields.hex()}" if fields else request.filter


def _judge(path: str, term: Term) -> Violation | None:
    if term.field not in (*_COLUMNS, _TEXT):
        known = ", ".join((*_COLUMNS, _TEXT))
        return Violation(path, f"{term.field} cannot be filtered by: use {known}", "UNKNOWN_FIELD")
    if term.field == "phase" and term.value not in gateway_pb2.Phase.keys():  # noqa: SIM118 - an enum wrapper
        known = ", ".join(gateway_pb2.Phase.keys()[1:])
        return Violation(path, f"{term.value} is not a phase: use {known}", "UNKNOWN_ENUM_VALUE")
    return None


def _syntax(path: str, position: int) -> Violation:
    return Violation(
        path,
        f"is not understood at character {position + 1}: write a=b AND c=d",
        "SYNTAX_ERROR",
    )
