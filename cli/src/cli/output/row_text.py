"""Rows of a dagger as documents, and their values as text."""

from typing import Any

from daggerclient.times import iso
from daggerspec.columns import WINDOW_TIMESTAMP
from daggerspec.exactjson import dumps
from daggerspec.row import Row


def document(row: Row) -> dict[str, Any]:
    """Build the document of a row."""
    time = iso(row.time) if row.time else None
    return {WINDOW_TIMESTAMP: time, "tags": dict(row.tags), "fields": dict(row.fields)}


def text(value: Any) -> str:
    """Format a value for people: nothing for null, JSON for a nested value."""
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return dumps(value)
