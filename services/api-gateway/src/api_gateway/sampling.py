"""Streams as their topics are now: the newest records, and which topics are not there. Hosts of drivers look.

Nothing that is asked for depends on it: whether a topic is there, a stream is registered all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from daggers.v1 import gateway_pb2, host_pb2, spec_pb2

from api_gateway.hosts import Hosts
from chassis.errors import ApiError
from chassis.interceptors import Context
from daggerspec.nearest import hint
from fleet import Fleet

PATIENCE_S: Final = 4.0
"""How long a call waits to hear whether topics are there."""
_ANSWER_S: Final = 1.0
"""What is left of a call's time for its answer."""
FRESH_S: Final = 10.0
"""How long an answer is good enough for who checks a specification again and again."""


@dataclass(frozen=True, slots=True)
class Topics:
    """What is known of the topics of a stream."""

    missing: Mapping[str, str]
    """Those that are not there; of each the one that may be meant, or nothing."""
    unchecked: str = ""
    """Why that is not known; empty when it is."""
    kafka_id: str = ""
    """What their Kafka says that it is; empty when it says nothing."""


class Samples:
    """Asks hosts about streams."""

    def __init__(self, hosts: Hosts, fleet: Fleet) -> None:
        self._hosts, self._fleet = hosts, fleet
        self._known: dict[tuple[str, int, tuple[str, ...]], tuple[float, Topics]] = {}
        self._ids: dict[tuple[str, int], str] = {}

    def records(
        self, stream: spec_pb2.Stream, count: int, context: Context
    ) -> AsyncGenerator[gateway_pb2.SampleStreamResponse, None]:
        """The newest records of a stream. Raises: ApiError."""
        sequence = self._fleet.sequence

        def request(host: str) -> host_pb2.SampleHostStreamRequest:
            return host_pb2.SampleHostStreamRequest(
                stream=stream, last_records=count, min_sequence=sequence, host=host
            )

        return self._hosts.anywhere(lambda host: host.SampleHostStream, request, context)

    async def topics(self, stream: spec_pb2.Stream, context: Context, *, fresh: bool = True) -> Topics:
        """Which topics of a stream are not there. Not `fresh`: an answer of a moment ago will do."""
        cluster = self._fleet.clusters.get(stream.cluster)
        if cluster is None:
            return Topics({})  # that is said as an error
        clock = asyncio.get_running_loop().time
        key = stream.cluster, cluster.version, tuple(stream.topics)
        until, known = self._known.get(key, (0.0, Topics({})))
        if not fresh and clock() < until:
            return known
        answer = await self._asked(stream, context)
        self._known = {each: value for each, value in self._known.items() if value[0] > clock()}
        self._known[key] = clock() + FRESH_S, answer
        return answer

    async def kafka_id(self, cluster: str, context: Context) -> str:
        """What the Kafka of a cluster says that it is; empty when nobody answers, or it says nothing."""
        entry = self._fleet.clusters.get(cluster)
        if entry is None or not entry.value.kafka.bootstrap_servers:
            return ""
        if (cluster, entry.version) not in self._ids:
            answer = await self.topics(spec_pb2.Stream(cluster=cluster), context, fresh=False)
            if answer.kafka_id:
                self._ids[cluster, entry.version] = answer.kafka_id
            return answer.kafka_id
        return self._ids[cluster, entry.version]

    async def look(
        self, spec: spec_pb2.DaggerSpec, answer: gateway_pb2.ValidateResponse, context: Context
    ) -> None:
        """Say which topics of the streams that a specification reads are not there."""
        read = {
            f"spec.streams[{number}].stream": entry.value
            for number, each in enumerate(spec.streams)
            if (entry := self._fleet.streams.get(each.stream)) is not None
        }
        known = await asyncio.gather(*(self.topics(each, context, fresh=False) for each in read.values()))
        for (field, stream), topics in zip(read.items(), known, strict=True):
            answer.findings.extend(warnings(stream, topics, field))
            answer.topics_unchecked = answer.topics_unchecked or topics.unchecked

    async def _asked(self, stream: spec_pb2.Stream, context: Context) -> Topics:
        remaining = context.time_remaining()
        patience_s = min(PATIENCE_S, (remaining or PATIENCE_S + _ANSWER_S) - _ANSWER_S)
        try:
            async with asyncio.timeout(patience_s), aclosing(self.records(stream, 0, context)) as steps:
                told = [step async for step in steps]
        except TimeoutError:
            return Topics({}, f"no host of drivers has answered in {max(patience_s, 0):.0f} s")
        except ApiError as error:
            return Topics({}, error.message)
        missing = {each.topic: each.suggestion for step in told for each in step.missing_topics}
        return Topics(missing, kafka_id=next((step.kafka_id for step in told if step.kafka_id), ""))


def warnings(stream: spec_pb2.Stream, topics: Topics, field: str = "") -> Iterator[gateway_pb2.Finding]:
    """A warning for each topic that is not there. `field` is the one to blame, not the topic's own."""
    for number, topic in enumerate(stream.topics):
        if topic in topics.missing:
            near = topics.missing[topic]
            yield gateway_pb2.Finding(
                code="TOPIC_MISSING",
                severity=gateway_pb2.SEVERITY_WARNING,
                field=field or f"stream.topics[{number}]",
                message=f"the Kafka of cluster {stream.cluster} has no topic {topic}{hint(near, '')}",
                suggestion=near,
            )
