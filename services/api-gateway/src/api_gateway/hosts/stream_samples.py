"""Streams as their topics are now: the newest records, which topics are not there, which have other messages.

Hosts of drivers look. Nothing that is asked for depends on it: a stream is registered all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from daggers.v1 import gateway_pb2, host_pb2, spec_pb2

from api_gateway.hosts.client import Hosts, in_time
from chassis.interceptors import Context
from daggerspec.limits import SAMPLED_RECORDS
from daggerspec.nearest import hint
from fleet import Fleet

PATIENCE_S: Final = 4.0
"""How long a call waits to hear whether topics are there."""
DESCRIBE_S: Final = 15.0
"""How long one waits that was asked what topics are."""
_UNKNOWN: Final = 0.2
"""From which part of the bytes on that are no fields of the message this is said."""
_REMEMBERED: Final = 256
"""So many answers are."""
FRESH_S: Final = 10.0
"""How long an answer is good enough for who checks a specification again and again."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What the newest records of a topic are."""

    count: int
    """How many were looked at that have a value."""
    others: int
    """How many of them are other messages than the stream's."""
    unknown: float
    """The part of the bytes of the rest that are no fields of the message; of each record as much."""


@dataclass(frozen=True, slots=True)
class Topics:
    """What is known of the topics of a stream."""

    missing: Mapping[str, str]
    """Those that are not there; of each the one that may be meant, or nothing."""
    unchecked: str = ""
    """Why that is not known; empty when it is."""
    kafka_id: str = ""
    """What their Kafka says that it is; empty when it says nothing."""
    looked: Mapping[str, Looked] = field(default_factory=dict)
    """What the newest records are of those that have any."""
    partitions: int | None = None
    """How many those that are there have; none when that is not known."""
    records_per_second: float | None = None
    """Of the last minute, over all of them; none when that is not known."""


class Samples:
    """Asks hosts about streams."""

    def __init__(self, hosts: Hosts, fleet: Fleet) -> None:
        self._hosts, self._fleet = hosts, fleet
        self._known: dict[tuple[str, int, str, tuple[str, ...]], tuple[float, Topics]] = {}
        self._ids: dict[tuple[str, int], str] = {}

    def records(
        self, stream: spec_pb2.Stream, count: int, context: Context
    ) -> AsyncGenerator[gateway_pb2.SampleStreamResponse, None]:
        """The newest records of a stream. Raises: ApiError."""
        request = host_pb2.SampleHostStreamRequest(stream=stream, last_records=count)
        return self._hosts.ask_any(lambda host: host.SampleHostStream, request, context)

    async def discovered(
        self, asked: gateway_pb2.DiscoverTopicsRequest, context: Context
    ) -> AsyncGenerator[gateway_pb2.DiscoverTopicsResponse, None]:
        """Topics of a cluster's Kafka, with the streams that have them. Raises: ApiError."""
        request = host_pb2.DiscoverHostTopicsRequest(request=asked)
        steps = self._hosts.ask_any(lambda host: host.DiscoverHostTopics, request, context)
        async with aclosing(steps):
            async for step in steps:
                for topic in step.topics:
                    self._tell_streams(asked.cluster, topic)
                yield step

    def _tell_streams(self, cluster: str, topic: gateway_pb2.DiscoveredTopic) -> None:
        """Which streams have the topic. What has sensitive fields in one of them has no examples."""
        entries = (entry.value for _, entry in sorted(self._fleet.streams.items()))
        having = [entry for entry in entries if entry.cluster == cluster and topic.topic in entry.topics]
        topic.streams.extend(stream.name for stream in having)
        if any(stream.sensitive for stream in having):
            for fit in topic.fits:
                fit.ClearField("example")
                fit.ClearField("earlier_examples")

    async def topics(
        self,
        stream: spec_pb2.Stream,
        context: Context,
        *,
        fresh: bool = True,
        patience_s: float | None = None,
    ) -> Topics:
        """What is known of the topics of a stream. Not `fresh`: an answer of a moment ago will do."""
        cluster = self._fleet.clusters.get(stream.cluster)
        if cluster is None:
            return Topics({})  # that is said as an error
        clock = asyncio.get_running_loop().time
        key = stream.cluster, cluster.version, stream.message, tuple(stream.topics)
        until, known = self._known.get(key, (0.0, Topics({})))
        if not fresh and clock() < until:
            return known
        answer = await self._asked(stream, context, PATIENCE_S if patience_s is None else patience_s)
        self._known = {key: value for key, value in self._known.items() if value[0] > clock()}
        self._known[key] = clock() + FRESH_S, answer
        if len(self._known) > _REMEMBERED:  # the oldest stands first
            del self._known[next(iter(self._known))]
        return answer

    async def kafka_id(self, cluster: str, context: Context) -> str:
        """What the Kafka of a cluster says that it is; empty when nobody answers, or it says nothing."""
        entry = self._fleet.clusters.get(cluster)
        if entry is None or not entry.value.kafka.bootstrap_servers:
            return ""
        if (cluster, entry.version) not in self._ids:
            answer = await self.topics(spec_pb2.Stream(cluster=cluster), context, fresh=False)
            if answer.kafka_id:
                newest = {(name, one.version) for name, one in self._fleet.clusters.items()}
                self._ids = {key: known for key, known in self._ids.items() if key in newest}
                self._ids[cluster, entry.version] = answer.kafka_id
            return answer.kafka_id
        return self._ids[cluster, entry.version]

    async def look(
        self, spec: spec_pb2.DaggerSpec, answer: gateway_pb2.ValidateResponse, context: Context
    ) -> None:
        """Say which topics of the streams that a specification reads are not there."""
        read = {
            f"spec.streams[{number}].stream": entry.value
            for number, stream in enumerate(spec.streams)
            if (entry := self._fleet.streams.get(stream.stream)) is not None
        }
        known = await asyncio.gather(*(self.topics(stream, context, fresh=False) for stream in read.values()))
        for (path, stream), topics in zip(read.items(), known, strict=True):
            answer.findings.extend(warnings(stream, topics, path))
            answer.topics_unchecked = answer.topics_unchecked or topics.unchecked

    async def describe(self, answer: gateway_pb2.DescribeStreamResponse, context: Context) -> None:
        """Say what the topics of the stream are now that is described, or why nobody knows."""
        known = await self.topics(answer.stream, context, fresh=False, patience_s=DESCRIBE_S)
        answer.topics_unchecked = known.unchecked
        if known.partitions is not None:
            answer.partitions = known.partitions
        if known.records_per_second is not None:
            answer.records_per_second = known.records_per_second

    async def _asked(self, stream: spec_pb2.Stream, context: Context, most_s: float) -> Topics:
        count = SAMPLED_RECORDS if stream.topics else 0
        # The first step says which topics there are; records may take longer.
        steps, why = await in_time(self.records(stream, count, context), context, most_s)
        told, looked = gateway_pb2.SampleStreamResponse(), bool(steps)
        for step in steps:
            told.MergeFrom(step)
        return Topics(
            missing={topic.topic: topic.suggestion for topic in told.missing_topics},
            unchecked="" if looked else why,
            kafka_id=told.kafka_id,
            looked=_looked(told.records),
            partitions=told.partitions if looked else None,
            records_per_second=told.records_per_second if told.HasField("records_per_second") else None,
        )


def _looked(records: Iterable[gateway_pb2.SampledRecord]) -> dict[str, Looked]:
    """What records are, by topic; those without a value say nothing."""
    having: dict[str, list[gateway_pb2.SampledRecord]] = {}
    for record in records:
        if record.size:
            having.setdefault(record.topic, []).append(record)
    return {topic: _of_topic(some) for topic, some in having.items()}


def _of_topic(records: Sequence[gateway_pb2.SampledRecord]) -> Looked:
    unknown = [record.unknown for record in records if not record.mismatch]
    mean = sum(unknown) / len(unknown) if unknown else 0.0
    return Looked(len(records), len(records) - len(unknown), mean)


def warnings(stream: spec_pb2.Stream, topics: Topics, field: str = "") -> Iterator[gateway_pb2.Finding]:
    """A warning for each topic that is not there, or has other messages. `field` is the one to blame, not the
    topic's own.
    """
    for number, topic in enumerate(stream.topics):
        for code, text in _unlike(stream, topic, topics.looked.get(topic)):
            yield gateway_pb2.Finding(
                code=code,
                severity=gateway_pb2.SEVERITY_WARNING,
                field=field or "stream.message",
                message=text,
            )
        if topic in topics.missing:
            near = topics.missing[topic]
            yield gateway_pb2.Finding(
                code="TOPIC_MISSING",
                severity=gateway_pb2.SEVERITY_WARNING,
                field=field or f"stream.topics[{number}]",
                message=f"the Kafka of cluster {stream.cluster} has no topic {topic}{hint(near, '')}",
                suggestion=near,
            )


def _unlike(stream: spec_pb2.Stream, topic: str, looked: Looked | None) -> Iterator[tuple[str, str]]:
    """How the newest records of a topic are unlike the stream's message: a code, and a sentence."""
    if looked is None:
        return
    does = "does" if looked.others == 1 else "do"
    if looked.others == looked.count:
        newest = "record" if looked.count == 1 else f"{looked.count} records"
        yield (
            "MESSAGE_MISMATCH",
            f"the topic {topic} seems to have another message than {stream.message}:"
            f" its newest {newest} {does} not decode as it, or have none of its fields",
        )
    elif looked.others:
        yield (
            "RECORDS_MISMATCH",
            f"{looked.others} of the newest {looked.count} records of the topic {topic} {does} not decode as"
            f" {stream.message}, or have none of its fields",
        )
    if looked.unknown >= _UNKNOWN:
        yield (
            "FIELDS_UNKNOWN",
            f"{looked.unknown:.0%} of the bytes of the newest records of the topic {topic} are no fields of"
            f" {stream.message}: its schema is older than they are, or they are another message;"
            f" `daggers stream discover --cluster {stream.cluster} --topic {topic}` says which fit",
        )
