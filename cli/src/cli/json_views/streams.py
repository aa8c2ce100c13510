"""A stream."""

from typing import Any

from daggers.v1 import spec_pb2


def stream(what: spec_pb2.Stream) -> dict[str, Any]:
    """A stream."""
    return {
        "name": what.name,
        "cluster": what.cluster,
        "topics": list(what.topics),
        "message": what.message,
        "time_field": what.time_field,
    }
