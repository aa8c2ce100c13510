"""Rows as events of users, for sinks that collect them: who, what, when, and properties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields, template
from daggerspec.columns import LABEL, TAG, TIMES, Column, Output
from daggerspec.keys import Key
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation

IDENTITY: Final = Key("identity", "The query's column that is a user's identity.", required=True)
LONGEST_NAME: Final = 120


def property_name(column: str) -> str:
    """Return the name of the property for a column, without the prefixes of tags."""
    return column.removeprefix(TAG).removeprefix(LABEL)


def properties(event: str, identity: str, rows: Output) -> Sequence[Column]:
    """Return the columns that become properties: all but the identity, the time, and the event's name."""
    excluded = {identity, *TIMES}
    if event.startswith("${") and len(template.parts(event)) == 1:
        excluded |= {reference.column for reference in template.references(event)}
    return [column for column in rows.columns if column.name not in excluded]


def violations(path: str, event: str, identity: str, rows: Output | None, most: int) -> Iterator[Violation]:
    """Yield the violations of an event, its identity and its properties, of which there may be `most`."""
    yield from fields.text(f"{path}.event", event, limit=512)
    yield from template.violations(f"{path}.event", event, rows)
    if not identity:
        yield Violation(f"{path}.identity", "is required", "REQUIRED")
    if rows is None:
        return
    columns = [column.name for column in rows.columns]
    if identity and identity not in columns:
        others = hint(nearest(identity, columns), f": it has {', '.join(columns)}")
        yield Violation(f"{path}.identity", f"the query has no column {identity}{others}", "UNKNOWN_COLUMN")
    names = [property_name(property_.name) for property_ in properties(event, identity, rows)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Violation(path, f"cannot have two columns as the property {name}", "DUPLICATE_COLUMN")
    if len(names) > most:
        problem = f"takes {most} properties of an event, and the query has {len(names)}"
        yield Violation(path, problem, "SINK_LIMIT")
    for name in names:
        if len(name) > LONGEST_NAME:
            problem = f"takes names of {LONGEST_NAME} characters: rename {name[:20]}…"
            yield Violation(path, problem, "SINK_LIMIT")


def secret(path: str, is_set: bool, reference: spec_pb2.SecretRef) -> Iterator[Violation]:
    """Yield the violations of a secret that is required."""
    if not is_set:
        yield Violation(path, "is required", "REQUIRED")
    else:
        yield from fields.secret(path, reference)
