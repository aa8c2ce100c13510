"""A stream, and what a query can read of it."""

from typing import Any

from daggers.v1 import gateway_pb2, spec_pb2


def stream(what: spec_pb2.Stream) -> dict[str, Any]:
    """A stream."""
    return {
        "name": what.name,
        "cluster": what.cluster,
        "topics": list(what.topics),
        "message": what.message,
        "time_field": what.time_field,
    }


def description(what: gateway_pb2.DescribeStreamResponse) -> dict[str, Any]:
    """A stream and its columns."""
    return {
        "stream": stream(what.stream),
        "columns": [
            {
                "path": column.path,
                "type": column.type,
                "protobuf_type": column.protobuf_type,
                "is_repeated": column.is_repeated,
                "enum_values": {value.name: value.number for value in column.enum_values},
                "example": column.example,
            }
            for column in what.columns
        ],
        "truncated": what.truncated,
        "sequence": what.sequence,
    }
