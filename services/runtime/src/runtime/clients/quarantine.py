"""Quarantined records: written to `daggers.quarantine`, with why, so that the job can go on."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from confluent_kafka import KafkaError, Message, Producer
from daggers.v1 import telemetry_pb2

from daggerspec import cloudevents
from daggerspec.topics import QUARANTINE
from runtime.clients.kafka import client
from runtime.errors import JobError, external

MAX_VALUE_BYTES = 512 * 1024
MAX_KEY_BYTES = 4 * 1024
MAX_PREFIX_CHARS = 64 * 1024
MAX_ROW_BYTES = 512 * 1024
# All of it together: a broker's default limit of a record is 1,000,000 bytes, before it is compressed.
_MAX_BYTES = 960_000
# What may wait for the platform's Kafka in one process: a flood is no faster than Kafka takes it.
MAX_WAITING_KIB = 16 * 1024

_log = logging.getLogger(__name__)
_TYPE = telemetry_pb2.Quarantined.DESCRIPTOR.full_name
_PATIENCE_S = 120.0
_SAY_S = 10.0


class Quarantine:
    """Writes quarantined records. At least once: nothing is lost once `flush` has returned.

    A batch that is repeated quarantines its records again, under the same ce_id. `properties` are those of
    the platform's own Kafka, which may be away for `patience_s`.
    """

    def __init__(self, properties: Mapping[str, str], patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._failure: JobError | None = None
        self._producer = client(
            Producer,
            {
                # A user's limits are about the user's cluster; what stands here is what "nothing is lost"
                # needs.
                **properties,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "queue.buffering.max.kbytes": MAX_WAITING_KIB,
                "compression.type": "gzip",  # what every client can read without further libraries
            },
        )

    def put(self, record: telemetry_pb2.Quarantined, identity: str) -> int:
        """Takes a record to write; cuts it, sets its id, and the time if unset. Its size in bytes.

        `identity` tells apart what has one place: of a record it is its topic's id, because topics of one
        name are on several clusters, or are made anew; of a row that a sink refused the row's own. Waits for
        room while `MAX_WAITING_KIB` wait already; raises `JobError` as `flush` does.
        """
        _cut(record)
        now = datetime.now(UTC)
        if not record.HasField("time"):
            record.time.FromDatetime(now)
        event = f"{record.dagger}/{record.topic}/{record.partition}/{record.offset}/{identity}"
        record.id = hashlib.blake2b(event.encode(), digest_size=16).hexdigest()
        headers = cloudevents.headers(
            ce_id=event,
            ce_type=_TYPE,
            source=f"/runtime/{record.dagger}/{record.generation}",
            subject=record.dagger,
            time=cloudevents.timestamp(now),
        )
        value = record.SerializeToString()
        end = time.monotonic() + self._patience_s
        while True:
            try:
                self._producer.produce(
                    QUARANTINE,
                    value,
                    record.dagger.encode(),
                    headers=[*headers],
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._give_up_at(end)
                self._producer.poll(1.0)
            else:
                self._producer.poll(0)
                return len(value)

    def flush(self) -> None:
        """Returns when Kafka has acknowledged every record; waits while it is unreachable, and says so.

        Raises `JobError` (EXTERNAL, retryable) when that takes longer than the patience there is, or when
        Kafka refuses a record for good: the batch is not committed, and is repeated by the next launch.
        """
        end = time.monotonic() + self._patience_s
        while self._producer.flush(min(_SAY_S, self._patience_s)):
            self._give_up_at(end)
            _log.warning(
                "waiting for the platform's Kafka to take %d quarantined records", len(self._producer)
            )
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _give_up_at(self, end: float) -> None:
        """Raise when it is later than `end`, a monotonic time."""
        if time.monotonic() < end:
            return
        waiting = len(self._producer)
        self._producer.purge()  # the batch will quarantine them again
        raise external(
            "QUARANTINE_UNREACHABLE",
            f"The platform's Kafka has not taken {waiting} quarantined records for {self._patience_s:.0f} s; "
            "the batch is repeated when the driver is started again.",
            retryable=True,
        )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failure = external(
                "QUARANTINE_REFUSED",
                f"Kafka does not take a record into {QUARANTINE}: {error.str()}.",
                retryable=True,
            )


def _cut(record: telemetry_pb2.Quarantined) -> None:
    """Cut a record to its limits. Half of a row is none: a greater one is left out."""
    record.key = record.key[:MAX_KEY_BYTES]
    record.decoded_prefix = record.decoded_prefix[:MAX_PREFIX_CHARS]
    if len(record.row) > MAX_ROW_BYTES:
        record.ClearField("row")
        record.truncated = True
    room = _MAX_BYTES - len(record.row) - len(record.decoded_prefix.encode()) - len(record.key)
    most = min(MAX_VALUE_BYTES, room)
    if len(record.value) > most:
        if not record.row:
            record.truncated, record.sha256 = True, hashlib.sha256(record.value).digest()
        record.value = record.value[:most]
