"""Write bad records to `daggers.quarantine`, with the reason, so that the job can go on."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import count

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from daggers.v1 import telemetry_pb2

from chassis.logging import logger
from daggerspec import cloudevents
from daggerspec.topics import QUARANTINE
from kafkaclient.replacing import Replaceable, answers, discard
from runtime.clients import topiclimits
from runtime.clients.kafka import PropertiesKey, client, key_of
from runtime.errors import JobError, external
from runtime.recent import cache_in_use

MAX_VALUE_BYTES = 512 * 1024
MAX_KEY_BYTES = 4 * 1024
MAX_PREFIX_CHARS = 64 * 1024
MAX_ROW_BYTES = 512 * 1024
# of a whole record: a broker's default limit is 1,000,000 bytes, uncompressed
_MAX_BYTES = 960_000
_OVERHEAD_BYTES = 16 * 1024
"""Bytes of a record besides value, row and key, and of its batch."""
_MAX_DETAIL_CHARS = 1_000
# limit of a process's unacknowledged records: a flood is slowed down to what Kafka accepts
MAX_WAITING_KIB = 16 * 1024

_TYPE = telemetry_pb2.Quarantined.DESCRIPTOR.full_name
_PATIENCE_S = 120.0
_SAY_S = 10.0


@cache_in_use
def _connect(properties: PropertiesKey, thread: int) -> tuple[Replaceable[Producer], int | None]:
    """Open a thread's producer, for the quarantines of all launches that it works for; return the greatest
    batch that the topic takes, too, in bytes, where that is known.

    A producer has threads and connections of its own. Between threads it is not shared: who gives up its
    records drops all that wait.
    """
    del thread
    limits = topiclimits.of(dict(properties), QUARANTINE)
    own = {
        **limits.properties,
        # the settings below override the user's: without them records could be lost
        **dict(properties),
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": 0,
        "queue.buffering.max.kbytes": MAX_WAITING_KIB,
        "compression.type": "gzip",  # every client can read it without further libraries
    }
    producers = Replaceable[Producer](
        lambda _: client(Producer, own), lambda: answers(dict(properties)), discard
    )
    return producers, limits.max_bytes


class Quarantine:
    """Writes quarantined records of a task at least once: none is lost after `flush` has returned.

    A repeated batch quarantines its records again, under the same ce_id. properties: of the platform's own
    Kafka. patience_s: how long that may be away. Only for the thread that makes it.
    """

    def __init__(self, properties: Mapping[str, str], patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._failure: JobError | None = None
        self._too_large: list[tuple[telemetry_pb2.Quarantined, list[tuple[str, bytes]]]] = []
        """Records that are too large for a batch: written again alone, then without their content."""
        self._waiting: dict[int, tuple[telemetry_pb2.Quarantined, list[tuple[str, bytes]]]] = {}
        """Records that Kafka has not acknowledged, by a running number."""
        self._numbers = count()
        self._producers, max_bytes = _connect(key_of(properties), threading.get_ident())
        self._most = min(_MAX_BYTES, max((max_bytes or _MAX_BYTES * 2) - _OVERHEAD_BYTES, 0))

    @property
    def _producer(self) -> Producer:
        return self._producers.current

    def put(self, record: telemetry_pb2.Quarantined, identity: str) -> int:
        """Queue a record, and return its size in bytes.

        Cuts it to its limits, sets its id, and an unset time.

        identity: distinguishes records of one place: the topic's id, because topics of one name are on
        several clusters, or are recreated; for a row that a sink refused the row's own. Blocks while
        `MAX_WAITING_KIB` are unacknowledged. Raises: JobError where Kafka stays away, or refuses a record for
        good.
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
        """Hand a record to the client, and return its size in bytes."""
        number, value = next(self._numbers), record.SerializeToString()
        end = time.monotonic() + self._patience_s
        while True:
            try:
                self._producer.produce(
                    QUARANTINE,
                    value,
                    record.dagger.encode(),
                    headers=[*headers],
                    on_delivery=partial(self._on_delivery, number),
                )
            except BufferError:
                self._raise_after(end)
                self._producer.poll(1.0)
                self._replace_if_stuck()
            except KafkaException as refusal:
                self._waiting[number] = record, headers
                self._on_delivery(number, refusal.args[0], None)
                return len(value)
            else:
                self._waiting[number] = record, headers
                self._producer.poll(0)
                return len(value)

    def _replace_if_stuck(self) -> None:
        """Replace a client without an answer for half a minute, if another one gets answers.

        Records in flight of the stuck client may be written twice; readers deduplicate by id.
        """
        if not self._producers.note_failure():
            return
        waiting, self._waiting = self._waiting, {}
        logger().warning("quarantine.client_replaced", waiting=len(waiting))
        for record, headers in waiting.values():
            self._produce(record, headers)

    def flush(self) -> None:
        """Block until Kafka has acknowledged every record; log while it is unreachable.

        Raises: JobError (EXTERNAL, retryable) where that exceeds the patience, or Kafka refuses a record for
        good: the batch is not committed, and the next launch repeats it.
        """
        self._flush_client()
        for by_reference in (False, True):
            too_large, self._too_large = self._too_large, []
            for record, headers in too_large:
                if by_reference:
                    strip_content(record)
                self._produce(record, headers)
                self._flush_client()  # one by one: Kafka refuses a whole batch, most of whose records fit
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _flush_client(self) -> None:
        end = time.monotonic() + self._patience_s
        while self._producer.flush(min(_SAY_S, self._patience_s)):
            self._raise_after(end)
            logger().warning("quarantine.write_delayed", waiting=len(self._producer))
            self._replace_if_stuck()

    def _raise_after(self, end: float) -> None:
        """Raise JobError after `end`, a monotonic time."""
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

    def _on_delivery(self, number: int, error: KafkaError | None, _: Message | None) -> None:
        record, headers = self._waiting.pop(number)
        if error is None:
            self._producers.note_success()
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
    """Tell whether a record has no content left."""
    return not (record.row or record.value or record.decoded_prefix)


def strip_content(record: telemetry_pb2.Quarantined) -> None:
    """Remove the content of a record or row; place, key and hash still identify it."""
    _set_digest(record)
    for field in ("row", "value", "decoded_prefix"):
        record.ClearField(field)
    record.truncated = True


def _set_digest(record: telemetry_pb2.Quarantined) -> None:
    """Set the hash of the whole content, before it is cut."""
    if not record.sha256:
        record.sha256 = hashlib.sha256(record.row or record.value).digest()


def _cut(record: telemetry_pb2.Quarantined, most_bytes: int = _MAX_BYTES) -> None:
    """Cut a record to its limits. A row that is too large is removed whole, and its hash stays."""
    record.detail = record.detail[:_MAX_DETAIL_CHARS]
    record.key = record.key[:MAX_KEY_BYTES]
    record.decoded_prefix = record.decoded_prefix[:MAX_PREFIX_CHARS]
    if len(record.decoded_prefix.encode()) > most_bytes // 4:
        record.decoded_prefix = record.decoded_prefix[: most_bytes // 16]
    room = most_bytes - len(record.decoded_prefix.encode()) - len(record.key)
    if len(record.row) > min(MAX_ROW_BYTES, room):
        _set_digest(record)
        record.ClearField("row")
        record.truncated = True
    most = max(min(MAX_VALUE_BYTES, room - len(record.row)), 0)
    if len(record.value) > most:
        if not record.row:
            _set_digest(record)
            record.truncated = True
        record.value = record.value[:most]
