"""Examine the topics of streams: newest records, missing topics, records of other messages.

Hosts of drivers do it. Callers must not depend on it: a stream is registered also where no host answers.
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
"""Longest wait, in seconds, of a call that checks whether topics exist."""
DESCRIBE_S: Final = 15.0
"""Longest wait, in seconds, of a call that describes topics."""
_UNKNOWN: Final = 0.2
"""Part of a topic's bytes that belong to no field of the message, from which there is a warning."""
_MOST_CACHED: Final = 256
"""Most cached answers."""
FRESH_S: Final = 10.0
"""Age, in seconds, up to which an answer is used again for repeated checks of a specification."""


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """Summary of a topic's newest records."""

    count: int
    """Number of records with a value."""
    others: int
    """Number of those that are of another message than the stream's."""
    unknown: float
    """Mean part of the other records' bytes that belong to no field of the message."""


@dataclass(frozen=True, slots=True)
class Topics:
    """State of the topics of a stream."""

    missing: Mapping[str, str]
    """Missing topics, each with the name of a similar one, or nothing."""
    unchecked: str = ""
    """Reason why the topics were not checked; empty where they were."""
    kafka_id: str = ""
    """Id of their Kafka; empty where it tells none."""
    summaries: Mapping[str, RecordSummary] = field(default_factory=dict)
    """Summaries of the newest records, for topics that have any."""
    partitions: int | None = None
    """Number of partitions of existing topics; None where it is unknown."""
    records_per_second: float | None = None
    """Rate of the last minute over all topics; None where it is unknown."""


class Samples:
    """Asks hosts about the topics of streams."""

    def __init__(self, hosts: Hosts, fleet: Fleet) -> None:
        self._hosts, self._fleet = hosts, fleet
        self._cache: dict[tuple[str, int, str, tuple[str, ...]], tuple[float, Topics]] = {}
        self._ids: dict[tuple[str, int], str] = {}

    def records(
        self, stream: spec_pb2.Stream, count: int, context: Context
    ) -> AsyncGenerator[gateway_pb2.SampleStreamResponse, None]:
        """Yield the newest records of a stream. Raises: ApiError."""
        request = host_pb2.SampleHostStreamRequest(stream=stream, last_records=count)
        reads = spec_pb2.DaggerSpec(cluster=stream.cluster)
        return self._hosts.ask_any(lambda host: host.SampleHostStream, request, context, spec=reads)

    async def discover(
        self, topics_request: gateway_pb2.DiscoverTopicsRequest, context: Context
    ) -> AsyncGenerator[gateway_pb2.DiscoverTopicsResponse, None]:
        """Yield topics of a cluster's Kafka, with the streams that read them. Raises: ApiError."""
        request = host_pb2.DiscoverHostTopicsRequest(request=topics_request)
        reads = spec_pb2.DaggerSpec(cluster=topics_request.cluster)
        steps = self._hosts.ask_any(lambda host: host.DiscoverHostTopics, request, context, spec=reads)
        async with aclosing(steps):
            async for step in steps:
                for topic in step.topics:
                    self._add_streams(topics_request.cluster, topic)
                yield step

    def _add_streams(self, cluster: str, topic: gateway_pb2.DiscoveredTopic) -> None:
        """Add the names of the streams that read a topic; drop examples where one of them has sensitive
        fields.
        """
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
        """Return the state of a stream's topics, from the cache unless `fresh`."""
        cluster = self._fleet.clusters.get(stream.cluster)
        if cluster is None:
            return Topics({})  # the missing cluster is an error of its own
        clock = asyncio.get_running_loop().time
        key = stream.cluster, cluster.version, stream.message, tuple(stream.topics)
        until, cached = self._cache.get(key, (0.0, Topics({})))
        if not fresh and clock() < until:
            return cached
        answer = await self._check(stream, context, PATIENCE_S if patience_s is None else patience_s)
        self._cache = {key: value for key, value in self._cache.items() if value[0] > clock()}
        self._cache[key] = clock() + FRESH_S, answer
        if len(self._cache) > _MOST_CACHED:  # dicts keep their order: drop the oldest
            del self._cache[next(iter(self._cache))]
        return answer

    async def kafka_id(self, cluster: str, context: Context) -> str:
        """Return the id of a cluster's Kafka; empty where no host answers, or it tells none."""
        entry = self._fleet.clusters.get(cluster)
        if entry is None or not entry.value.kafka.bootstrap_servers:
            return ""
        if (cluster, entry.version) not in self._ids:
            answer = await self.topics(spec_pb2.Stream(cluster=cluster), context, fresh=False)
            if answer.kafka_id:
                newest = {(name, one.version) for name, one in self._fleet.clusters.items()}
                self._ids = {key: id_ for key, id_ in self._ids.items() if key in newest}
                self._ids[cluster, entry.version] = answer.kafka_id
            return answer.kafka_id
        return self._ids[cluster, entry.version]

    async def look(
        self, spec: spec_pb2.DaggerSpec, answer: gateway_pb2.ValidateResponse, context: Context
    ) -> None:
        """Add warnings for missing topics of the streams that a specification reads."""
        read = {
            f"spec.streams[{number}].stream": entry.value
            for number, stream in enumerate(spec.streams)
            if (entry := self._fleet.streams.get(stream.stream)) is not None
        }
        checked = await asyncio.gather(
            *(self.topics(stream, context, fresh=False) for stream in read.values())
        )
        for (path, stream), topics in zip(read.items(), checked, strict=True):
            answer.findings.extend(warnings(stream, topics, path))
            answer.topics_unchecked = answer.topics_unchecked or topics.unchecked

    async def describe(self, answer: gateway_pb2.DescribeStreamResponse, context: Context) -> None:
        """Set in a description of a stream the state of its topics, or why it is unknown."""
        topics = await self.topics(answer.stream, context, fresh=False, patience_s=DESCRIBE_S)
        answer.topics_unchecked = topics.unchecked
        if topics.partitions is not None:
            answer.partitions = topics.partitions
        if topics.records_per_second is not None:
            answer.records_per_second = topics.records_per_second

    async def _check(self, stream: spec_pb2.Stream, context: Context, most_s: float) -> Topics:
        count = SAMPLED_RECORDS if stream.topics else 0
        # The first step has the topics' state; records may take longer.
        steps, why = await in_time(self.records(stream, count, context), context, most_s)
        answer, is_answered = gateway_pb2.SampleStreamResponse(), bool(steps)
        for step in steps:
            answer.MergeFrom(step)
        return Topics(
            missing={topic.topic: topic.suggestion for topic in answer.missing_topics},
            unchecked="" if is_answered else why,
            kafka_id=answer.kafka_id,
            summaries=_summarize(answer.records),
            partitions=answer.partitions if is_answered else None,
            records_per_second=answer.records_per_second if answer.HasField("records_per_second") else None,
        )


def _summarize(records: Iterable[gateway_pb2.SampledRecord]) -> dict[str, RecordSummary]:
    """Summarise records by topic; those without a value are not counted."""
    having: dict[str, list[gateway_pb2.SampledRecord]] = {}
    for record in records:
        if record.size:
            having.setdefault(record.topic, []).append(record)
    return {topic: _of_topic(some) for topic, some in having.items()}


def _of_topic(records: Sequence[gateway_pb2.SampledRecord]) -> RecordSummary:
    unknown = [record.unknown for record in records if not record.mismatch]
    mean = sum(unknown) / len(unknown) if unknown else 0.0
    return RecordSummary(len(records), len(records) - len(unknown), mean)


def warnings(stream: spec_pb2.Stream, topics: Topics, field: str = "") -> Iterator[gateway_pb2.Finding]:
    """Yield a warning for each topic that is missing, or has records of other messages.

    `field` replaces the stream's own field in the warnings.
    """
    for number, topic in enumerate(stream.topics):
        for code, text in _unlike(stream, topic, topics.summaries.get(topic)):
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


def _unlike(stream: spec_pb2.Stream, topic: str, summary: RecordSummary | None) -> Iterator[tuple[str, str]]:
    """Yield a code and a sentence for each way in which records differ from the stream's message."""
    if summary is None:
        return
    does, has = ("does", "has") if summary.others == 1 else ("do", "have")
    if summary.others == summary.count:
        newest = "record" if summary.count == 1 else f"{summary.count} records"
        yield (
            "MESSAGE_MISMATCH",
            f"the topic {topic} seems to have another message than {stream.message}:"
            f" its newest {newest} {does} not decode as it, or {has} none of its fields",
        )
    elif summary.others:
        yield (
            "RECORDS_MISMATCH",
            f"{summary.others} of the newest {summary.count} records of the topic {topic} {does} not decode"
            f" as {stream.message}, or {has} none of its fields",
        )
    if summary.unknown >= _UNKNOWN:
        yield (
            "FIELDS_UNKNOWN",
            f"{summary.unknown:.0%} of the bytes of the newest records of the topic {topic} are no fields of"
            f" {stream.message}: its schema is older than they are, or they are another message;"
            f" `daggers stream discover --cluster {stream.cluster} --topic {topic}` says which fit",
        )
