"""A row as the command shows it, whichever sink it was read from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cli.times import iso

TIME = "window_timestamp"
TAG, LABEL = "tag_", "label_"


@dataclass(frozen=True)
class Row:
    """One output row: its time (None when it has none), its tags by key, its fields by name."""

    time: datetime | None
    tags: Mapping[str, str]
    fields: Mapping[str, Any]

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes it one row: time and tags."""
        return (self.time, *sorted(self.tags.items()))

    def document(self) -> dict[str, Any]:
        """The row as JSON."""
        return {
            TIME: iso(self.time) if self.time else None,
            "tags": dict(self.tags),
            "fields": dict(self.fields),
        }


def from_columns(columns: Mapping[str, Any]) -> Row:
    """The row behind output columns: window_timestamp, tag_x, label_x, and fields; nulls are left out."""
    time = columns.get(TIME)
    tags: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for name, value in columns.items():
        if value is None or name == TIME:
            continue
        if name.startswith(TAG):
            tags[name] = _text(value)
        elif name.startswith(LABEL):
            tags[name.removeprefix(LABEL)] = _text(value)
        else:
            fields[name] = value
    return Row(datetime.fromisoformat(time) if isinstance(time, str) else None, tags, fields)


def newest(rows: Iterable[Row], limit: int) -> list[Row]:
    """The newest rows, newest first; rows of one time by their tags."""
    by_tags = sorted(rows, key=lambda row: sorted(row.tags.items()))
    by_time = sorted(by_tags, key=lambda row: row.time.timestamp() if row.time else 0.0, reverse=True)
    return by_time[:limit]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
