"""SelectFields(messages, type, path): one field of each encoded message of a list.

Of a repeated field, whose messages are structs, the query takes the field natively. Encoded messages go
through `selectfields(ARRAY<BINARY>, STRING, STRING) -> STRING`, the JSON of the list, which it reads back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pool import DescriptorPool

from runtime.values import messages
from runtime.values.registration import Registration


def reference(
    items: Sequence[bytes | None] | None,
    *names: str,
    pool: DescriptorPool,
    message: str | None = None,
) -> list[Any] | None:
    """Select the fields of one list of messages; None for a NULL list.

    `names` are the type and the path, or the path alone when `message` is the type.
    """
    kind, path = names if len(names) == 2 else (message, names[0])
    if items is None or kind is None:
        return None
    return messages.values_at(pool, kind, items, path)


def register(session: Registration) -> None:
    """Bring `selectfields` to the session, for the message types that were shared with its application."""
    files = session.files
    counter = session.invalid_input("selectfields")

    def compute(items: pa.Array, kinds: pa.Array, paths: pa.Array) -> pa.Array:
        answers, invalid = messages.lists(files, items, kinds.to_pylist(), paths.to_pylist())
        counter.add(invalid)
        return pa.array(answers, pa.string())

    session.register_uncounted("selectfields", compute, "string")
