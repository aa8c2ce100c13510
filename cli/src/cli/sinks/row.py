"""A row as the command shows it, whichever sink it was read from."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daggerclient.times import iso

TIME = "window_timestamp"
TAG, LABEL = "tag_", "label_"


@dataclass(frozen=True)
class Row:
    """One output row: its time (None when it has none), its tags by key, its fields by name.

    key: what tells a row without a time from another: the place where it was read.
    """

    time: datetime | None
    tags: Mapping[str, str]
    fields: Mapping[str, Any]
    key: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes it one row: time and tags; without a time, where it was read."""
        return (self.time or self.key, *sorted(self.tags.items()))

    def document(self) -> dict[str, Any]:
        """The row as JSON."""
        return {
            TIME: iso(self.time) if self.time else None,
            "tags": dict(self.tags),
            "fields": dict(self.fields),
        }


def from_columns(columns: Mapping[str, Any], key: str = "") -> Row:
    """The row behind output columns: window_timestamp, tag_x, label_x, and fields; nulls are left out."""
    time = columns.get(TIME)
    tags: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for name, value in columns.items():
        if value is None or name == TIME:
            continue
        if name.startswith(TAG):
            tags[name] = text(value)
        elif name.startswith(LABEL):
            tags[name.removeprefix(LABEL)] = text(value)
        else:
            fields[name] = value
    return Row(datetime.fromisoformat(time) if isinstance(time, str) else None, tags, fields, key)


def newest(rows: Iterable[Row], limit: int) -> list[Row]:
    """The newest rows, newest first; rows of one time by their tags, those without one last, as they come."""
    found = list(rows)
    timed = [row for row in found if row.time]
    timed.sort(key=lambda row: sorted(row.tags.items()))
    timed.sort(key=lambda row: row.time.timestamp() if row.time else 0.0, reverse=True)
    return [*timed, *(row for row in found if not row.time)][:limit]


def text(value: Any) -> str:
    """A value as people read it: nothing for null, JSON for what is nested."""
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)
