"""CondEq(path, value): a condition for Filters, which has no value of its own in a query.

The fast form is a comparison that `daggersql.functions.own` writes into that of Filters.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pool import DescriptorPool

from runtime.values import messages
from runtime.values.registration import Registration


def reference(path: str, value: Any, *, message: bytes, kind: str, pool: DescriptorPool) -> bool:
    """Compare the field at `path` of an encoded message of that kind with a value. Raises: DecodeError."""
    selected = messages.value_at(pool, kind, message, path)
    if selected is None or value is None or isinstance(selected, bool) != isinstance(value, bool):
        return False
    return bool(selected == value)


def register(session: Registration) -> None:
    """Bring nothing: Spark compares."""
