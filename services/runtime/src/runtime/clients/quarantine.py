"""Quarantined records: written to `daggers.quarantine`, with why, so that the job can go on."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import count

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from daggers.v1 import telemetry_pb2

from daggerspec import cloudevents
from daggerspec.topics import QUARANTINE
from kafkaclient.replacing import Replaceable, answers, discard
from runtime.clients import topiclimits
from runtime.clients.kafka import client
from runtime.errors import JobError, external

MAX_VALUE_BYTES = 512 * 1024
MAX_KEY_BYTES = 4 * 1024
MAX_PREFIX_CHARS = 64 * 1024
MAX_ROW_BYTES = 512 * 1024
# All of it together: a broker's default limit of a record is 1,000,000 bytes, before it is compressed.
_MAX_BYTES = 960_000
_AROUND_BYTES = 16 * 1024
"""What a record has beside its value, its row and its key; and what is around it."""
_MAX_DETAIL_CHARS = 1_000
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
        self._too_large: list[tuple[telemetry_pb2.Quarantined, list[tuple[str, bytes]]]] = []
        """Records that their topic does not take, to be written again: alone, then by reference."""
        self._waiting: dict[int, tuple[telemetry_pb2.Quarantined, list[tuple[str, bytes]]]] = {}
        """Records that Kafka has not acknowledged, by a number of each."""
        self._numbers = count()
        limits = topiclimits.of(properties, QUARANTINE)
        self._most = min(_MAX_BYTES, max((limits.max_bytes or _MAX_BYTES * 2) - _AROUND_BYTES, 0))
        writing = {
            **limits.properties,
            # A user's limits are about the user's cluster; what stands here is what "nothing is lost" needs.
            **properties,
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "queue.buffering.max.kbytes": MAX_WAITING_KIB,
            "compression.type": "gzip",  # what every client can read without further libraries
        }
        self._producers: Replaceable[Producer] = Replaceable(
            lambda _: client(Producer, writing), lambda: answers(properties), discard
        )

    @property
    def _producer(self) -> Producer:
        return self._producers.current

    def put(self, record: telemetry_pb2.Quarantined, identity: str) -> int:
        """Takes a record to write; cuts it, sets its id, and the time if unset. Its size in bytes.

        `identity` tells apart what has one place: of a record it is its topic's id, because topics of one
        name are on several clusters, or are made anew; of a row that a sink refused the row's own. Waits for
        room while `MAX_WAITING_KIB` wait already; raises `JobError` as `flush` does.
        """
        _cut(record, self._most)
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
        return self._produce(record, [*headers])

    def _produce(self, record: telemetry_pb2.Quarantined, headers: list[tuple[str, bytes]]) -> int:
        """Hand a record to the client; its size in bytes."""
        number, value = next(self._numbers), record.SerializeToString()
        end = time.monotonic() + self._patience_s
        while True:
            try:
                self._producer.produce(
                    QUARANTINE,
                    value,
                    record.dagger.encode(),
                    headers=[*headers],
                    on_delivery=partial(self._delivered, number),
                )
            except BufferError:
                self._give_up_at(end)
                self._producer.poll(1.0)
                self._replace_if_stuck()
            except KafkaException as refusal:
                self._waiting[number] = record, headers
                self._delivered(number, refusal.args[0], None)
                return len(value)
            else:
                self._waiting[number] = record, headers
                self._producer.poll(0)
                return len(value)

    def _replace_if_stuck(self) -> None:
        """After half a minute without an answer have another client, if it is answered, write what waits.

        What the stuck one had in flight may be written, too; whoever reads takes an id once.
        """
        if not self._producers.failed():
            return
        waiting, self._waiting = self._waiting, {}
        _log.warning("the client of the quarantine is not answered, and is replaced: %d wait", len(waiting))
        for record, headers in waiting.values():
            self._produce(record, headers)

    def flush(self) -> None:
        """Returns when Kafka has acknowledged every record; waits while it is unreachable, and says so.

        Raises `JobError` (EXTERNAL, retryable) when that takes longer than the patience there is, or when
        Kafka refuses a record for good: the batch is not committed, and is repeated by the next launch.
        """
        self._flush()
        for by_reference in (False, True):
            again, self._too_large = self._too_large, []
            for record, headers in again:
                if by_reference:
                    refer(record)
                self._produce(record, headers)
                self._flush()  # alone: Kafka refuses a whole batch, and most of its records fit
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _flush(self) -> None:
        end = time.monotonic() + self._patience_s
        while self._producer.flush(min(_SAY_S, self._patience_s)):
            self._give_up_at(end)
            _log.warning(
                "waiting for the platform's Kafka to take %d quarantined records", len(self._producer)
            )
            self._replace_if_stuck()

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

    def _delivered(self, number: int, error: KafkaError | None, _: Message | None) -> None:
        record, headers = self._waiting.pop(number)
        if error is None:
            self._producers.succeeded()
            return
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and not is_reference(record):
            self._too_large.append((record, headers))
            return
        self._failure = external(
            "QUARANTINE_REFUSED",
            f"Kafka does not take a record into {QUARANTINE}: {error.str()}.",
            retryable=True,
        )


def is_reference(record: telemetry_pb2.Quarantined) -> bool:
    """Whether nothing of its content is kept."""
    return not (record.row or record.value or record.decoded_prefix)


def refer(record: telemetry_pb2.Quarantined) -> None:
    """Leave out what it has of the record or the row: its place, its key and its hash say which it is."""
    _digest(record)
    for field in ("row", "value", "decoded_prefix"):
        record.ClearField(field)
    record.truncated = True


def _digest(record: telemetry_pb2.Quarantined) -> None:
    """Keep the hash of the whole, of a row as it is, before any of it is cut."""
    if not record.sha256:
        record.sha256 = hashlib.sha256(record.row or record.value).digest()


def _cut(record: telemetry_pb2.Quarantined, most_bytes: int = _MAX_BYTES) -> None:
    """Cut a record to its limits. Half of a row is none: a greater one is left out, and its hash is kept."""
    record.detail = record.detail[:_MAX_DETAIL_CHARS]
    record.key = record.key[:MAX_KEY_BYTES]
    record.decoded_prefix = record.decoded_prefix[:MAX_PREFIX_CHARS]
    if len(record.decoded_prefix.encode()) > most_bytes // 4:
        record.decoded_prefix = record.decoded_prefix[: most_bytes // 16]
    room = most_bytes - len(record.decoded_prefix.encode()) - len(record.key)
    if len(record.row) > min(MAX_ROW_BYTES, room):
        _digest(record)
        record.ClearField("row")
        record.truncated = True
    most = max(min(MAX_VALUE_BYTES, room - len(record.row)), 0)
    if len(record.value) > most:
        if not record.row:
            _digest(record)
            record.truncated = True
        record.value = record.value[:most]
