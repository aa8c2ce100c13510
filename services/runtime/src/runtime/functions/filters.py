"""Filters(messages, type, condition, …): the messages of a list that fulfil every condition.

The fast form is native over structs; fields of encoded messages are taken out by `selectfields` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from runtime.functions import condeq
from runtime.values import messages
from runtime.values.registration import Registration


def reference(
    items: Sequence[bytes | None] | None,
    message: str | None,
    *conditions: tuple[str, Any],
    pool: DescriptorPool,
) -> list[bytes] | None:
    """Select the encoded messages that fulfil all conditions, in order. A condition is (path, value)."""
    if items is None or message is None:
        return None
    return [item for item in items if item is not None and _stays(item, message, conditions, pool)]


def _stays(item: bytes, message: str, conditions: Sequence[tuple[str, Any]], pool: DescriptorPool) -> bool:
    try:
        messages.decode_message(pool, message, item)
        return all(
            condeq.reference(path, value, message=item, kind=message, pool=pool) for path, value in conditions
        )
    except DecodeError:
        return False


def register(session: Registration) -> None:
    """Bring nothing: Spark has filters over lists."""
