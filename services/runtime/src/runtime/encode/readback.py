"""Rows as sinks have them, put in one form: what `daggers rows` shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from daggerspec.columns import WINDOW_TIMESTAMP, Role, key_of, role_of
from daggerspec.row import Row


def from_columns(columns: Mapping[str, Any], key: str = "") -> Row:
    """The row behind output columns: window_timestamp, tag_x, label_x, and fields; nulls are left out."""
    time = columns.get(WINDOW_TIMESTAMP)
    tags: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for name, value in columns.items():
        if value is None:
            continue
        if role_of(name) is Role.TAG:
            tags[key_of(name)] = _text(value)
        elif role_of(name) is Role.FIELD:
            fields[name] = value
    return Row(datetime.fromisoformat(time) if isinstance(time, str) else None, tags, fields, key)


def newest(rows: Iterable[Row], limit: int) -> list[Row]:
    """The newest rows, newest first; rows of one time by their tags, those without one last, as they come."""
    listed = list(rows)
    timed = [row for row in listed if row.time]
    timed.sort(key=lambda row: sorted(row.tags.items()))
    timed.sort(key=lambda row: row.time.timestamp() if row.time else 0.0, reverse=True)
    return [*timed, *(row for row in listed if not row.time)][:limit]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
