"""`daggers.quarantine` as a replay reads it, from where its request says, and writes it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from daggers.v1 import spec_pb2, telemetry_pb2

from daggerspec import cloudevents
from daggerspec.topics import QUARANTINE
from kafkaclient.tail import bounds, is_end
from runtime.clients import kafka
from runtime.errors import JobError, TemporaryError, external
from runtime.replay.history import Kept, Place

_AT_ONCE: Final = 1_000
_PATIENCE_S: Final = 60.0
"""Nothing comes for so long: who started the replay starts it again."""
_GAP: Final = 2_000
"""So many records that are not wanted are read rather than jumped over."""
Headers = list[tuple[str, str | bytes | None]]
_TYPE: Final = telemetry_pb2.QuarantineResolved.DESCRIPTOR.full_name
_READER: Final = {"queued.max.messages.kbytes": 8_192, "fetch.wait.max.ms": 50}


class Topic:
    """The records of one dagger. Every method raises `JobError`: Kafka's silence is retryable."""

    def __init__(self, platform: spec_pb2.KafkaAddress, dagger: str) -> None:
        self._address, self._key = platform, dagger.encode()
        self._consumer: Consumer = kafka.consumer(platform, "daggers-replay", _READER)

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()

    def whole(
        self, partitions: Collection[int], starts: Mapping[int, int]
    ) -> Iterator[tuple[Place, Message]]:
        """All records of the dagger in these partitions, each from where it starts, if that is said, to its
        end as it is now.
        """
        with kafka.explained(self._address):
            for partition in sorted(partitions):
                low, high = bounds(self._consumer, TopicPartition(QUARANTINE, partition))
                for offset, message in self._read(partition, max(low, starts.get(partition, 0)), high):
                    if message.key() == self._key:
                        yield (partition, offset), message

    def at(self, places: Sequence[Place]) -> Iterator[tuple[Place, Message | None]]:
        """The records that stand at these places, sorted; None of one that is gone."""
        with kafka.explained(self._address):
            for partition, some in groupby(sorted(places), key=lambda place: place[0]):
                low, _ = bounds(self._consumer, TopicPartition(QUARANTINE, partition))
                yield from self._some(partition, [offset for _, offset in some], low)

    def _some(
        self, partition: int, offsets: Sequence[int], low: int
    ) -> Iterator[tuple[Place, Message | None]]:
        for run in _runs(offsets):
            wanted = iter(run)
            waited = next(wanted, None)
            for offset, message in self._read(partition, max(run[0], low), run[-1] + 1):
                while waited is not None and waited < offset:
                    yield (partition, waited), None
                    waited = next(wanted, None)
                if waited == offset:
                    yield (partition, offset), message
                    waited = next(wanted, None)
            while waited is not None:
                yield (partition, waited), None
                waited = next(wanted, None)

    def _read(self, partition: int, start: int, end: int) -> Iterator[tuple[int, Message]]:
        """The records from one offset to before another."""
        if start >= end:
            return
        self._consumer.assign([TopicPartition(QUARANTINE, partition, start)])
        deadline = time.monotonic() + _PATIENCE_S
        following = start
        while following < end:
            messages = self._consumer.consume(min(_AT_ONCE, end - following), timeout=0.5)
            if not messages and time.monotonic() > deadline:
                raise TimeoutError(f"the topic {QUARANTINE} gives nothing for {_PATIENCE_S:.0f} s")
            for message in messages:
                deadline = time.monotonic() + _PATIENCE_S
                if is_end(message):
                    return  # the last offsets hold no records
                following = (message.offset() or 0) + 1
                if following <= end:
                    yield following - 1, message


class Outcomes:
    """Writes what became of records."""

    def __init__(
        self,
        platform: spec_pb2.KafkaAddress,
        dagger: str,
        replay_id: str,
        *,
        sequence: int,
        created: int,
    ) -> None:
        """`sequence` is that of the request, `created` that of the dagger's creation."""
        self._dagger, self._replay_id = dagger, replay_id
        self._sequence, self._created = sequence, created
        self._failure: KafkaError | None = None
        properties = {
            **kafka.client_properties(platform),
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "gzip",
        }
        self._producer: Producer = kafka.client(Producer, properties)

    def say(self, outcomes: Mapping[str, telemetry_pb2.QuarantineResolved], kept: Mapping[str, Kept]) -> None:
        """Write these, by the ids of their records, to where these stand; they are in Kafka when it returns.

        Raises: JobError.
        """
        now = datetime.now(UTC)
        for id_, outcome in outcomes.items():
            outcome.dagger, outcome.id = self._dagger, id_
            outcome.replay_id = self._replay_id
            outcome.sequence, outcome.created = self._sequence, self._created
            outcome.time.FromDatetime(now)
            headers = cloudevents.headers(
                ce_id=f"{self._replay_id}/{id_}",
                ce_type=_TYPE,
                source=f"/runtime/{self._dagger}/replay/{self._replay_id}",
                subject=self._dagger,
                time=cloudevents.timestamp(now),
            )
            self._put(kept[id_].place[0], outcome.SerializeToString(), [*headers])
        if self._producer.flush(_PATIENCE_S):
            raise _away()
        if self._failure is not None:
            why = f"Kafka does not take a record into {QUARANTINE}: {self._failure.str()}."
            raise external("QUARANTINE_REFUSED", why, retryable=True)

    def _put(self, partition: int, value: bytes, headers: Headers) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._producer.produce(
                    QUARANTINE,
                    value,
                    self._dagger.encode(),
                    partition,
                    headers=headers,
                    on_delivery=self._delivered,
                )
            except BufferError:
                if time.monotonic() > deadline:
                    raise _away() from None
                self._producer.poll(1.0)
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._failure = error or self._failure


def _away() -> JobError:
    what = f"The platform's Kafka has not taken what became of records for {_PATIENCE_S:.0f} s."
    return TemporaryError("QUARANTINE_UNREACHABLE", what)


def _runs(offsets: Sequence[int]) -> Iterator[list[int]]:
    """The offsets in runs that are read in one go."""
    run: list[int] = []
    for offset in offsets:
        if run and offset - run[-1] > _GAP:
            yield run
            run = []
        run.append(offset)
    if run:
        yield run
