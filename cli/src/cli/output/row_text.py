"""A row of a dagger as the command shows it: as a document, and its values as text."""

from typing import Any

from daggerclient.times import iso
from daggerspec.columns import WINDOW_TIMESTAMP
from daggerspec.exactjson import dumps
from daggerspec.row import Row


def document(row: Row) -> dict[str, Any]:
    """A row as JSON."""
    time = iso(row.time) if row.time else None
    return {WINDOW_TIMESTAMP: time, "tags": dict(row.tags), "fields": dict(row.fields)}


def text(value: Any) -> str:
    """A value as people read it: nothing for null, JSON for what is nested."""
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return dumps(value)
