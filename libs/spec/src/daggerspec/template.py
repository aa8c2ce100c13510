"""Texts in which ${column} stands for the value of a row, and ${column:%Y.%m.%d} for a time of it. Pure.

A template of JSON is JSON. Of its strings, keys are constants; one that is ${column} and nothing else stands
for the value itself, with its type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from daggerspec.columns import Output
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation

_REFERENCE: Final = re.compile(r"\$\{([^{}:]+)(?::([^{}]+))?\}")
ROWS: Final = '"${rows}"'
"""The placeholder for all rows of a request, in the JSON around them."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A place for a value."""

    column: str
    format: str = ""
    """Of a time, as strftime has it; empty: as JSON has the value, without quotes."""


Part: TypeAlias = str | Reference


def parts(text: str) -> tuple[Part, ...]:
    """Cut a text at its references. The rest stays text."""
    cut, end = list[Part](), 0
    for match in _REFERENCE.finditer(text):
        cut += [text[end : match.start()], Reference(match[1], match[2] or "")]
        end = match.end()
    return tuple(part for part in (*cut, text[end:]) if part != "")


def references(text: str) -> list[Reference]:
    """List the references of a text."""
    return [part for part in parts(text) if isinstance(part, Reference)]


def literal(text: str) -> str:
    """Return a text without its references."""
    return "".join(part for part in parts(text) if isinstance(part, str))


def strings(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value, but for keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for inner in value.values() for text in strings(inner))
    elif isinstance(value, list):
        yield from (text for inner in value for text in strings(inner))


def violations(path: str, text: str, rows: Output | None) -> Iterator[Violation]:
    """Yield the violations of a text's references; `rows` None: its columns are unknown."""
    if "${" in _REFERENCE.sub("", text):
        yield Violation(path, "has a ${ that no } ends: write ${column}", "SINK_TEMPLATE")
    if rows is None:
        return
    types = {column.name: column.type for column in rows.columns}
    for reference in references(text):
        if reference.column not in types:
            others = hint(nearest(reference.column, list(types)), f": it has {', '.join(types)}")
            problem = f"the query has no column {reference.column}{others}"
            yield Violation(path, problem, "SINK_TEMPLATE")
        elif reference.format and types[reference.column] != "timestamp":
            problem = f"{reference.column} is no time, and takes no format"
            yield Violation(path, problem, "SINK_TEMPLATE")


def json_violations(path: str, text: str, rows: Output | None) -> Iterator[Violation]:
    """Yield the violations of a template of JSON."""
    try:
        value = parse_json(text)
    except ValueError:
        yield Violation(path, "must be JSON", "SINK_TEMPLATE")
        return
    for string in strings(value):
        yield from violations(path, string, rows)


def wrap_violations(path: str, text: str) -> Iterator[Violation]:
    """Yield the violations of the JSON around the rows of a request."""
    try:
        parse_json(text)
        around(text)
    except ValueError:
        problem = f"must be JSON, and have the string {ROWS} once, where the rows stand"
        yield Violation(path, problem, "SINK_TEMPLATE")


def parse_json(text: str) -> Any:
    """Parse a JSON text. Raises: ValueError, also for what other parsers refuse (NaN)."""

    def constant(name: str) -> Any:
        raise ValueError(name)

    try:
        return json.loads(text, parse_constant=constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def around(text: str) -> tuple[str, str]:
    """Return the texts before and behind the rows. Raises: ValueError unless ROWS stands there once."""
    before, after = json.dumps(parse_json(text), separators=(",", ":"), ensure_ascii=False).split(ROWS)
    return f"{before}[", f"]{after}"
