"""The log on Kafka: one topic of one partition. Sequence = offset.

Appends are idempotent (`acks=all`): the producer repeats a send until the broker has it, once. When the
producer itself fails, a new one sends the record again, under the same id. Readers have no consumer group:
each remembers its own sequence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from chassis.logging import logger
from eventlog.admin import create_missing
from eventlog.log import LogDamaged, LogError, LogUnavailable, RecordTooLarge
from eventlog.reader import (
    BACKOFF_MS,
    REQUEST_TIMEOUT_MS,
    TEMPORARY,
    Message,
    PartitionReader,
    client,
    unavailable,
)
from eventlog.record import Draft, Record, read_record
from eventlog.topics import log_topic
from kafkaclient import Connection
from kafkaclient.behind import is_behind
from kafkaclient.replacing import Spell

SILENCE_S: Final = 0.05
"""Silence after which new records may be those of another log: recreating a topic takes longer than this."""
_ACK_S: Final = 15.0
# Without lingering nearly every record is its own produce request, and its own fetch for each follower.
_LINGER_MS: Final = 5
_PRODUCERS: Final = 2
# A fetch of at most one byte: Kafka returns the first batch whole even if it is larger, and no second one.
_ONE_BATCH: Final = 1
_CLUSTER_CHECK_S: Final = 60.0
_CHECK_S: Final = 5.0


class KafkaLog:
    """One topic as a log. An async context manager: entering connects, and creates a missing topic.

    Raises on entering: LogUnavailable when Kafka does not answer; LogError when the topic cannot be used.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self.away = ""
        """Reason why a follower cannot reach the log at the moment; empty while it can."""
        self._connection = connection
        self._topic = topic
        self._partition = TopicPartition(topic, 0)
        self._cluster_id: str | None = None
        self._producer: AIOKafkaProducer | None = None
        self._producer_lock = asyncio.Lock()
        self._writing = Spell()
        self._admin: AIOKafkaAdminClient | None = None
        self._asking = Spell()

    async def __aenter__(self) -> Self:
        self._admin = AIOKafkaAdminClient(**client(self._connection))
        try:
            await self._admin.start()
            await create_missing(self._admin, (log_topic(self._topic),))
            self._cluster_id = await self._current_cluster()
            await self._connected_producer()
        except BaseException as error:
            await self._close()
            if isinstance(error, TEMPORARY):
                raise unavailable(self._connection, error) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def append(self, draft: Draft) -> None:
        """Append a record, in _ACK_S at most; after an error it may still be written.

        Raises: LogUnavailable, RecordTooLarge.
        """
        key, value, headers = draft.subject.encode(), _encode(draft), draft.headers()
        clock = asyncio.get_running_loop()
        failure: BaseException | None = None
        try:
            async with asyncio.timeout(_ACK_S):
                for _ in range(_PRODUCERS):
                    producer = await self._connected_producer()
                    try:
                        sent = await producer.send(self._topic, value, key=key, headers=headers, partition=0)
                        sent.add_done_callback(_retrieve_error)
                        await asyncio.shield(sent)
                    except MessageSizeTooLargeError as error:
                        text = f"a record of {len(value)} bytes is more than topic {self._topic} takes"
                        raise RecordTooLarge(text) from error
                    except KafkaError as error:
                        failure = error
                        await self._give_up(producer)
                    else:
                        self._writing = Spell()
                        return
        except TEMPORARY as error:
            failure = error
        self._writing = self._writing.fails(clock.time() - _ACK_S)
        if self._producer is not None and self._writing.due(clock.time()):
            # Neither acknowledged nor refused: a stuck producer waits for a broker that has left the cluster.
            self._writing = self._writing.looks(clock.time())
            await self._replace_producer(self._producer)
        raise unavailable(self._connection, failure) from failure

    async def replay(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """Yield the records with sequence > since up to the end at the call.

        Raises: LogUnavailable; LogDamaged.
        """
        async with PartitionReader(self._connection, self._partition) as reader:
            end = await self._seek(reader, since)
            sequence = since
            while sequence < end:
                for record in self._decode_all(await reader.read_to(end), sequence):
                    if record.sequence > end:
                        return
                    sequence = record.sequence
                    yield record

    async def follow(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """Yield the records with sequence > since, then new ones for ever; wait through outages.

        Raises: LogUnavailable at the start; LogDamaged, also when the topic is recreated or another cluster
        takes over the address.
        """
        async with PartitionReader(self._connection, self._partition) as reader:
            await self._seek(reader, since)
            clock = asyncio.get_running_loop()
            last: Record | None = None
            # Newest record whose presence was confirmed by a second read. Records after it may belong to
            # another log, if the topic was recreated between two reads.
            anchor: Record | None = None
            doubted, checked, reached, silence = False, clock.time(), True, Spell()
            while True:
                read_began = clock.time()
                messages = await reader.read()
                idle = not messages
                silence = silence.fails(read_began) if idle else Spell()
                if silence.due(clock.time()):
                    silence = Spell()
                    if await is_behind(self._connection, {self._partition: since + 1}):
                        logger().warning("kafka.reader_replaced", topic=self._topic)
                        with suppress(LogUnavailable):
                            await reader.renew(since + 1)
                            doubted = False
                        continue
                waited_s = clock.time() - read_began
                if messages and anchor is not None and not doubted and waited_s > SILENCE_S:
                    reader.seek(anchor.sequence)
                    doubted = True
                    continue
                if doubted and messages:
                    self._check_same(anchor, messages[0])
                    anchor, doubted = last, False
                    messages = [message for message in messages if message.offset > since]
                    if not messages:
                        reader.seek(since + 1)
                for record in self._decode_all(messages, since):
                    last, since = record, record.sequence
                    anchor = anchor or record
                    yield record
                # Silence may be an outage, or another cluster or topic may have taken over the name.
                if idle or clock.time() - checked > _CLUSTER_CHECK_S:
                    before, reached = reached, await self._check_reachable()
                    # Back at the second success only: writers were cut off, too, and get that long to resume.
                    back = reached and before
                    where = f"Kafka at {self._connection.bootstrap_servers}"
                    self.away = "" if back else f"{where} does not answer"
                    if reached != before:
                        event = "kafka.found" if reached else "kafka.lost"
                        logger().warning(event, topic=self._topic)
                    if doubted and reached:
                        # A topic that ends before `since` is silent, too, so the end needs a check.
                        with suppress(LogUnavailable):
                            await reader.check_end(since)
                    if anchor is not None:
                        reader.seek(anchor.sequence)
                        doubted = True
                    checked = clock.time()

    async def read(self, sequences: Sequence[int]) -> list[Record]:
        """Read the records at these sequences, by one fetch for each. Raises: LogUnavailable, LogDamaged."""
        records: list[Record] = []
        async with PartitionReader(self._connection, self._partition, fetch_bytes=_ONE_BATCH) as reader:
            await self._seek(reader, max(sequences, default=-1))
            for sequence in sequences:
                reader.seek(sequence)
                messages: list[Message] = []
                while not messages:
                    messages = await reader.read_to(sequence)
                records += self._decode_all(messages[:1], sequence - 1)
        return records

    async def end(self) -> int:
        """Fetch the sequence of the last record; -1 for an empty log. Raises: LogUnavailable."""
        async with PartitionReader(self._connection, self._partition) as reader:
            return (await reader.bounds())[1]

    async def _seek(self, reader: PartitionReader, since: int) -> int:
        """Move the reader behind `since`, and return the sequence of the last record.

        Raises: LogUnavailable; LogDamaged when the topic has lost the records there.
        """
        try:
            await self._check_cluster()
        except TEMPORARY as error:
            raise unavailable(self._connection, error) from error
        first, last = await reader.bounds()
        if since > last:
            raise LogDamaged(
                f"topic {self._topic} ends at {last}, but {since} was read before: it lost records"
            )
        if first > max(since, -1) + 1:
            raise LogDamaged(f"topic {self._topic} begins at {first}: the records before it are lost")
        reader.seek(max(since, -1) + 1)
        return last

    def _decode_all(self, messages: list[Message], since: int) -> Iterator[Record]:
        """Decode the messages, which must follow `since` without a gap. Raises: LogDamaged at a gap."""
        for message in messages:
            if message.offset != since + 1:
                raise LogDamaged(
                    f"topic {self._topic} holds nothing between sequences {since} and {message.offset}:"
                    " it lost records (is it compacted?)"
                )
            since = message.offset
            yield read_record(message.offset, message.headers, message.value)

    def _check_same(self, before: Record | None, message: Message) -> None:
        """Compare a message with the record that was read there before. Raises: LogDamaged if it differs."""
        if before != read_record(message.offset, message.headers, message.value):
            raise LogDamaged(
                f"topic {self._topic} holds another record at sequence {message.offset} than was read there"
                " before: it was made anew"
            )

    async def _check_reachable(self) -> bool:
        """Tell whether the cluster answers. Raises: LogDamaged when it is another cluster."""
        clock = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CHECK_S):
                await self._check_cluster()
        except TEMPORARY:
            self._asking = self._asking.fails(clock.time())
            if not self._asking.due(clock.time()):
                return False
            self._asking = self._asking.looks(clock.time())
            return await self._replace_admin()
        self._asking = Spell()
        return True

    async def _replace_admin(self) -> bool:
        """Replace a stuck admin client by a fresh one; tell whether Kafka answers that.

        Raises: LogDamaged when it is another cluster.
        """
        fresh, stuck = AIOKafkaAdminClient(**client(self._connection)), self._admin
        try:
            async with asyncio.timeout(_CHECK_S):
                await fresh.start()
        except TEMPORARY:
            await fresh.close()
            return False
        self._admin = fresh
        if stuck is not None:
            await stuck.close()
        try:
            await self._check_cluster()
        except TEMPORARY:
            return False
        logger().warning("kafka.admin_client_replaced", topic=self._topic)
        self._asking = Spell()
        return True

    async def _check_cluster(self) -> None:
        current = await self._current_cluster()
        if current != self._cluster_id:
            raise LogDamaged(
                f"{self._connection.bootstrap_servers} is now Kafka cluster {current}; topic {self._topic}"
                f" was read from cluster {self._cluster_id}"
            )

    async def _current_cluster(self) -> str | None:
        if self._admin is None:
            raise LogError(f"the log on topic {self._topic} is not open")
        cluster_id: str | None = (await self._admin.describe_cluster())["cluster_id"]
        return cluster_id

    async def _connected_producer(self) -> AIOKafkaProducer:
        async with self._producer_lock:
            if self._producer is None:
                self._producer = await self._start_producer()
            return self._producer

    async def _start_producer(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **client(self._connection),
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=BACKOFF_MS,
            linger_ms=_LINGER_MS,
        )
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return producer

    async def _replace_producer(self, stuck: AIOKafkaProducer) -> None:
        """Replace a stuck producer by a fresh one, if Kafka answers that.

        Records that the old one has no acknowledgement of may be written, or never: their callers get
        LogUnavailable, and send them again under the same id.
        """
        async with self._producer_lock:
            if self._producer is not stuck:
                return
            try:
                async with asyncio.timeout(_CHECK_S):
                    self._producer = await self._start_producer()
            except TEMPORARY:
                return
        logger().warning("kafka.producer_replaced", topic=self._topic)
        self._writing = Spell()
        await _stop(stuck)

    async def _give_up(self, producer: AIOKafkaProducer) -> None:
        async with self._producer_lock:
            if self._producer is producer:
                self._producer = None
                await _stop(producer)

    async def _close(self) -> None:
        if self._producer is not None:
            await _stop(self._producer)
        if self._admin is not None:
            await self._admin.close()
        self._producer = self._admin = None


def _encode(draft: Draft) -> bytes:
    return draft.message.SerializeToString(deterministic=True)


def _retrieve_error(sent: asyncio.Future[Any]) -> None:
    """Mark the error of a send as retrieved: its caller may have timed out, and asyncio would log it."""
    if not sent.cancelled():
        sent.exception()


async def _stop(producer: AIOKafkaProducer) -> None:
    """Stop a producer within a second, without waiting for batches that cannot be delivered."""
    try:
        await asyncio.wait_for(producer.stop(), timeout=1)
    except TEMPORARY:
        await producer.client.close()
