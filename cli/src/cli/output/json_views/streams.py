"""A stream, what a query can read of it, and what is in its topics."""

import base64
from typing import Any

from daggers.v1 import gateway_pb2, spec_pb2

from daggerclient.times import iso
from daggerspec.exactjson import loads


def stream(what: spec_pb2.Stream) -> dict[str, Any]:
    """A stream."""
    return {
        "name": what.name,
        "cluster": what.cluster,
        "topics": list(what.topics),
        "message": what.message,
        "time_field": what.time_field,
        "sensitive": list(what.sensitive),
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
                "comment": column.comment,
            }
            for column in what.columns
        ],
        "truncated": what.truncated,
        "sequence": what.sequence,
        "partitions": what.partitions if what.HasField("partitions") else None,
        "records_per_second": _rate(what),
        "topics_unchecked": what.topics_unchecked or None,
    }


def discovery(what: gateway_pb2.DiscoverTopicsResponse) -> dict[str, Any]:
    """Topics, and the messages that their records may be: `example` is null where there is none."""
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": topic.partitions,
                "offsets": topic.offsets,
                "records_per_second": topic.records_per_second,
                "retention_s": topic.retention.ToTimedelta().total_seconds()
                if topic.HasField("retention")
                else None,
                "sampled": topic.sampled,
                "fits": [
                    {
                        "message": one.message,
                        "score": one.score,
                        "example": loads(one.example) if one.example else None,
                        "problem": one.problem or None,
                    }
                    for one in topic.fits
                ],
                "streams": list(topic.streams),
            }
            for topic in what.topics
        ],
        "missing_topics": {topic.topic: topic.suggestion or None for topic in what.missing_topics},
        "cut": what.cut or None,
    }


def sample(name: str, what: gateway_pb2.SampleStreamResponse) -> dict[str, Any]:
    """The newest records of a stream: `value` is null where there is a `problem`, keys are in base64."""
    return {
        "stream": name,
        "partitions": what.partitions,
        "records_per_second": _rate(what),
        "records": [_sampled(record) for record in what.records],
        "missing_topics": {topic.topic: topic.suggestion or None for topic in what.missing_topics},
        "cut": what.cut or None,
    }


def _rate(what: gateway_pb2.DescribeStreamResponse | gateway_pb2.SampleStreamResponse) -> float | None:
    return what.records_per_second if what.HasField("records_per_second") else None


def _sampled(what: gateway_pb2.SampledRecord) -> dict[str, Any]:
    return {
        "topic": what.topic,
        "partition": what.partition,
        "offset": what.offset,
        "time": iso(what.time) if what.HasField("time") else None,
        "key": base64.b64encode(what.key).decode(),
        "size": what.size,
        "value": loads(what.json) if what.HasField("json") else None,
        "problem": what.problem or None,
    }
