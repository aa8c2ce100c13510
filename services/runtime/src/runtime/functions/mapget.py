"""MapGet(map, key): the value of a key, with its own type; NULL when there is none.

The fast form is native: `try_element_at`, and a filter over a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.values.registration import Registration


def reference(values: Mapping[Any, Any] | Sequence[Mapping[str, Any] | None] | None, key: Any) -> Any:
    """Look one key up; in a list of messages the first field is the key and the second the value."""
    if values is None or key is None:
        return None
    if isinstance(values, Mapping):
        return values.get(key)
    pairs = (tuple(value.values()) for value in values if value is not None)
    return next((pair[1] for pair in pairs if pair[0] == key), None)


def register(session: Registration) -> None:
    """Bring nothing: Spark has it."""
