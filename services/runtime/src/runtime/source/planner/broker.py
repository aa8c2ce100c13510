"""Ask Kafka for a planner: topics, offsets, and samples of records."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # public by its docs only

from chassis.logging import logger
from kafkaclient.replacing import Replaceable, answers
from runtime.clients.kafka import PropertiesKey, client, key_of
from runtime.errors import JobError, TemporaryError
from runtime.source.kafka_errors import job_error
from runtime.source.offsets import Partition, Positions
from runtime.source.planner import samplers

_TIMEOUT_S = 10.0
# librdkafka keeps to that itself, but for a client that is stuck.
_ANSWER_S = _TIMEOUT_S + 5.0
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # the library forgot its type
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # as above
# A partition that is new, or moves: for a moment no broker leads it, or not to everybody's knowledge.
_MOVING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,  # noqa: SLF001 - the library names its local errors so; it found no leaders
}
_MOVING_S, _PAUSE_S = 5.0, 0.1
_UNANSWERED = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001 - see _MOVING
_admins: WeakValueDictionary[PropertiesKey, AdminClient] = WeakValueDictionary()
_making = threading.Lock()


@dataclass(frozen=True, slots=True)
class Topic:
    """Topic as Kafka describes it now; `leaderless` are the partitions nobody can read."""

    id: str
    partitions: tuple[Partition, ...]
    leaderless: tuple[Partition, ...]


class Broker:
    """Asks Kafka from the driver. `properties` are the stream's client properties; `group` is never joined.

    Every method raises `JobError`: a `TemporaryError` when Kafka does not answer, an EXTERNAL error
    otherwise.
    """

    def __init__(self, properties: Mapping[str, str], group: str) -> None:
        key = key_of(properties)
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if properties.get("isolation.level") == "read_uncommitted"
            else IsolationLevel.READ_COMMITTED
        )
        # One of the two may be stuck while the other is answered: each has its own.
        self._admins: Replaceable[AdminClient] = Replaceable(
            lambda stuck: _admin(key, stuck), lambda: answers(properties), lambda _: None
        )

        self._group = group
        self._samplers = samplers.use(properties, group)

    @property
    def _admin(self) -> AdminClient:
        return self._admins.current

    def close(self) -> None:
        """Close the connections that nobody else uses."""
        samplers.leave(self._samplers)

    def topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """Describe these topics: ids and partitions. Raises: JobError, TemporaryError."""
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=_TIMEOUT_S)
        topics = {}
        for name, future in futures.items():
            try:
                described = future.result(_ANSWER_S)
            except TimeoutError:
                raise self._explain(_UNANSWERED, f"reading the topic {name!r}") from None
            except KafkaException as problem:
                raise self._explain(problem.args[0], f"reading the topic {name!r}") from None
            topics[name] = Topic(
                id=str(described.topic_id),
                partitions=tuple(Partition(name, partition.id) for partition in described.partitions),
                leaderless=tuple(
                    Partition(name, partition.id)
                    for partition in described.partitions
                    if partition.leader is None or partition.leader.id < 0
                ),
            )
        self._admins.note_success()
        return topics

    def first(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset of the first record that each partition still holds."""
        return self._offsets(partitions, _EARLIEST)

    def end(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset after the last record that can be read (and is not of an open transaction)."""
        return self._offsets(partitions, _LATEST)

    def high_watermark(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset after the last record of each partition, those of open transactions included."""
        return self._offsets(partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED)

    def first_at(self, time_ms: int, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset of the first record whose Kafka time is not before `time_ms`; left out: none."""
        offsets = self._offsets(partitions, OffsetSpec.for_timestamp(max(time_ms, 0)))
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}

    def samples(self, start: Positions, count: int) -> dict[Partition, list[Message]]:
        """Read the first `count` records (fewer at the end of a partition) from these offsets on, in order.

        Raises: TemporaryError.
        """
        gathered, waiting = self._sample(start, count, sys.maxsize)
        if waiting:
            names = ", ".join(map(str, sorted(waiting)))
            raise TemporaryError("KAFKA_UNREACHABLE", f"Kafka does not answer: no record from {names}.")
        return gathered

    def bounded_samples(
        self, start: Positions, count: int, most_bytes: int
    ) -> dict[Partition, list[Message]]:
        """Read samples of at most `most_bytes` or one record; left out: partitions that gave none in time.

        In a gap of gigabytes, where transactions were aborted, the next record is long in coming.
        """
        gathered, waiting = self._sample(start, count, most_bytes)
        return {partition: sample for partition, sample in gathered.items() if partition not in waiting}

    def _sample(
        self, start: Positions, count: int, most_bytes: int
    ) -> tuple[dict[Partition, list[Message]], set[Partition]]:
        """Read samples; return them and the partitions that did not give enough in time."""
        if not start:
            return {}, set()
        gathered: dict[Partition, list[Message]] = {partition: [] for partition in start}
        room = dict.fromkeys(start, (count, most_bytes))
        assigned = [TopicPartition(p.topic, p.number, offset) for p, offset in start.items()]
        with self._samplers.take() as sampler:
            consumer, came = sampler.current, False
            consumer.assign(assigned)
            deadline = time.monotonic() + _TIMEOUT_S
            try:
                while room and time.monotonic() < deadline:
                    for message in consumer.consume(count * len(room), 0.05):
                        came = _gather(consumer, message, gathered, room) or came
            finally:
                # A pause outlives the assignment.
                consumer.resume(assigned)
                consumer.unassign()
            if came:
                sampler.note_success()
            elif sampler.note_failure():
                logger().warning("kafka.consumer_replaced")
        return gathered, set(room)

    def commit(self, positions: Positions) -> None:
        """Commit offsets of the consumer group, for people's tools; does not wait, nor say what came of it.

        Raises: KafkaException.
        """
        offsets = [TopicPartition(p.topic, p.number, offset) for p, offset in positions.items()]
        self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(self._group, offsets)])

    def _offsets(
        self, partitions: Iterable[Partition], spec: OffsetSpec, isolation: IsolationLevel | None = None
    ) -> dict[Partition, int]:
        specs = {TopicPartition(p.topic, p.number): spec for p in partitions}
        offsets: dict[Partition, int] = {}
        deadline = time.monotonic() + _MOVING_S
        while specs:
            futures = self._admin.list_offsets(
                specs, isolation_level=isolation or self._isolation, request_timeout=_TIMEOUT_S
            )
            for wanted, future in futures.items():
                partition = Partition(wanted.topic, wanted.partition)
                error = _put(offsets, partition, future)
                if error is None:
                    del specs[wanted]
                elif error.code() not in _MOVING or time.monotonic() > deadline:
                    raise self._explain(error, f"asking for the offsets of {partition}")
            if specs:
                time.sleep(_PAUSE_S)
                self._learn_leaders({wanted.topic for wanted in specs})
        self._admins.note_success()
        return offsets

    def _learn_leaders(self, topics: Iterable[str]) -> None:
        """Have librdkafka look the leaders up: it believes for minutes what it learnt in a bad moment."""
        for topic in topics:
            try:
                self._admin.list_topics(topic, _TIMEOUT_S)
            except KafkaException as problem:
                raise self._explain(problem.args[0], f"reading the topic {topic!r}") from None

    def _explain(self, error: KafkaError, action: str) -> JobError:
        """Make the error to raise, after librdkafka has logged its own; replace clients that are stuck."""
        self._admin.poll(0)
        problem = job_error(error, action)
        if isinstance(problem, TemporaryError) and self._admins.note_failure():
            logger().warning("kafka.client_replaced", why=error.str())
            # What it forgot, the consumers have most likely forgotten, too.
            self._samplers.forget()
        return problem


def _admin(properties: PropertiesKey, instead_of: AdminClient | None) -> AdminClient:
    """Return a client for topics and offsets: one for all who ask the same cluster at a time.

    `instead_of`: one that is stuck; another one is made, unless somebody else has already.
    """
    with _making:
        admin = _admins.get(properties)
        if admin is None or admin is instead_of:
            admin = _admins[properties] = client(AdminClient, dict(properties))
        return admin


def _gather(
    consumer: Consumer,
    message: Message,
    gathered: dict[Partition, list[Message]],
    room: dict[Partition, tuple[int, int]],
) -> bool:
    """Add a message to the samples; tell whether it is an answer of a broker.

    `room` is for how many records and bytes more, of partitions that go on. Raises: JobError.
    """
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - see _MOVING
        problem = job_error(error, "reading a record")
        if not isinstance(problem, TemporaryError):
            raise problem
        logger().warning("kafka.read_failed", detail=problem.error.detail)
        return False
    partition = Partition(str(message.topic()), int(message.partition() or 0))
    if partition not in room:
        return True
    if error is None:
        gathered[partition].append(message)
        count, size = room[partition]
        room[partition] = count - 1, size - len(message)
    if error is not None or min(room[partition]) <= 0:
        del room[partition]
        # Else it would be read on to its end, before the others: brokers serve partitions in turn.
        consumer.pause([TopicPartition(partition.topic, partition.number)])
    return True


def _put(offsets: dict[Partition, int], partition: Partition, answer: Future[Any]) -> KafkaError | None:
    """Put the answer into `offsets`, or say why there is none."""
    try:
        offset: int = answer.result(_ANSWER_S).offset
    except TimeoutError:
        return _UNANSWERED
    except KafkaException as problem:
        error: KafkaError = problem.args[0]
        return error
    if offset == OFFSET_INVALID:  # librdkafka's only word for a leader that did not answer in time
        return _UNANSWERED
    offsets[partition] = offset
    return None
