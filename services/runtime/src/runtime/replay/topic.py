"""Read `daggers.quarantine` for one replay, and append the outcomes of records to it."""

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
from kafkaclient.tail import bounds
from runtime.clients import kafka
from runtime.clients import offsets_reading as reading
from runtime.clients.offsets_reading import PATIENCE_S
from runtime.errors import JobError, TemporaryError, external
from runtime.replay.history import Place, QuarantineEntry

Headers = list[tuple[str, str | bytes | None]]
_TYPE: Final = telemetry_pb2.QuarantineResolved.DESCRIPTOR.full_name
READER: Final = {
    "fetch.wait.max.ms": 50,
    # Read little ahead: a fetch is ten times as large once it is unpacked.
    "queued.max.messages.kbytes": 4_096,
    "fetch.message.max.bytes": 128 * 1024,
    # Fetch again soon after a full queue: the default, a second for each 8 MiB, was most of the start-up
    # time.
    "fetch.queue.backoff.ms": 5,
}


class QuarantineTopic:
    """Reads one dagger's events. Every method raises JobError, retryable when Kafka does not answer."""

    def __init__(self, platform: spec_pb2.KafkaAddress, dagger: str) -> None:
        self._address, self._key = platform, dagger.encode()
        self._consumer: Consumer = kafka.consumer(platform, "daggers-replay", READER)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def read_all(
        self, partitions: Collection[int], starts: Mapping[int, int]
    ) -> Iterator[tuple[Place, Message]]:
        """Yield the dagger's events in these partitions, up to their present ends.

        starts: first offset by partition; a partition without one is read from its beginning.
        """
        with kafka.mapping_errors(self._address):
            for partition in sorted(partitions):
                low, high = bounds(self._consumer, TopicPartition(QUARANTINE, partition))
                start = max(low, starts.get(partition, 0))
                for offset, message in reading.read_range(self._consumer, QUARANTINE, partition, start, high):
                    if message.key() == self._key:
                        yield (partition, offset), message

    def read_at(self, places: Sequence[Place]) -> Iterator[tuple[Place, Message | None]]:
        """Yield the records at these places in their order; None for one that Kafka has deleted."""
        with kafka.mapping_errors(self._address):
            for partition, some in groupby(sorted(places), key=lambda place: place[0]):
                low, _ = bounds(self._consumer, TopicPartition(QUARANTINE, partition))
                offsets = [offset for _, offset in some]
                for offset, message in reading.read_offsets(
                    self._consumer, QUARANTINE, partition, offsets, low
                ):
                    yield (partition, offset), message


class OutcomeProducer:
    """Appends outcomes of records to the partitions that the records stand in."""

    def __init__(
        self,
        platform: spec_pb2.KafkaAddress,
        dagger: str,
        replay_id: str,
        *,
        sequence: int,
        created: int,
    ) -> None:
        """Open the producer. sequence: of the request; created: sequence of the dagger's creation."""
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

    def produce_outcomes(
        self,
        outcomes: Mapping[str, telemetry_pb2.QuarantineResolved],
        entries: Mapping[str, QuarantineEntry],
    ) -> None:
        """Append the outcomes, and return once Kafka has acknowledged them all. Both are by id of the record.

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
            self._produce(entries[id_].place[0], outcome.SerializeToString(), [*headers])
        if self._producer.flush(PATIENCE_S):
            raise _unreachable()
        if self._failure is not None:
            why = f"Kafka does not take a record into {QUARANTINE}: {self._failure.str()}."
            raise external("QUARANTINE_REFUSED", why, retryable=True)

    def _produce(self, partition: int, value: bytes, headers: Headers) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._producer.produce(
                    QUARANTINE,
                    value,
                    self._dagger.encode(),
                    partition,
                    headers=headers,
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                if time.monotonic() > deadline:
                    raise _unreachable() from None
                self._producer.poll(1.0)
            else:
                self._producer.poll(0)
                return

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        self._failure = error or self._failure


def _unreachable() -> JobError:
    detail = f"The platform's Kafka has not taken what became of records for {PATIENCE_S:.0f} s."
    return TemporaryError("QUARANTINE_UNREACHABLE", detail)
