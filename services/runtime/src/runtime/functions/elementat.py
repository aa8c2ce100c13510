"""ElementAt(list, index[, …]): an element, or a field of it, as text.

Positions count from 0, negative ones from the end. The fast form is native: `get`, the field, and a cast or
`to_json`, which `daggersql.functions.own` writes into the query after it has looked at the paths.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from runtime.values.featurerows import java_text
from runtime.values.registration import Registration


def reference(items: Sequence[Any] | None, *rest: Any) -> str | None:
    """Return one element as text. `rest` is the index, or list path, index, path and maybe table."""
    index, path = (rest[0], None) if len(rest) == 1 else (rest[1], rest[2])
    if items is None or index is None or not -len(items) <= index < len(items):
        return None
    value = items[index]
    for name in path.split(".") if path is not None else ():
        value = value.get(name) if isinstance(value, Mapping) else None
    return as_text(value)


def as_text(value: Any) -> str | None:
    """Write a value as Spark does when it casts to STRING."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case float():
            return java_text(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}"
        case str() | int():
            return str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def register(session: Registration) -> None:
    """Bring nothing: Spark has it."""
