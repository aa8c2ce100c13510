"""Size limits of messages to services, and the calls whose messages may be larger."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor, MethodDescriptor

MAX_MESSAGE: Final = 1024 * 1024
"""Bytes of a message to a service."""
MAX_CARRIER: Final = 4 * 1024 * 1024
"""Bytes of one that carries a schema or a query, from a caller who is known."""
MAX_HEALTH: Final = 64 * 1024
"""Bytes of a message to the port that only tells health."""
MAX_SHARED_HEALTH: Final = 1024
"""Bytes of a question for health at a port that is for calls."""

_CARRIED: Final = frozenset(
    {"google.protobuf.FileDescriptorSet", "daggers.v1.DaggerSpec", "daggers.v1.SchemaFile"}
)
"""Schemas, their sources, and what has the text of a query."""


def carries(method: MethodDescriptor) -> bool:
    """Tell whether a request of this method may have a schema or a query, at any depth."""
    pending, visited = [method.input_type], set[str]()
    while pending:
        message: Descriptor = pending.pop()
        if message.full_name in _CARRIED:
            return True
        if message.full_name not in visited:
            visited.add(message.full_name)
            pending += [field.message_type for field in message.fields if field.message_type is not None]
    return False


def largest(method: MethodDescriptor) -> int:
    """Bytes that a request of this method may have."""
    return MAX_CARRIER if carries(method) else MAX_MESSAGE
