"""The sink `kafka`: each row is one record of a topic, as JSON, as a Protobuf message, or as it was read.

Guarantee: at least once, and repeats can be detected: the record's key is the row's key, and `ce_id` is
derived from it, so a row that is written again after a crash has the same key, `ce_id` and value. Records are
CloudEvents in binary mode. One that is passed on as it was read (`payload: record`) has its own value, key
and headers, and behind those `daggers_id`, by which a repeat can be detected. A row the broker refuses (too
large) is quarantined; while it is away the batch waits.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from daggers.v1 import spec_pb2
from google.protobuf.message import DecodeError

from chassis.logging import logger
from daggerspec import cloudevents, query
from daggerspec.row import Row
from daggerspec.selection import Selection
from kafkaclient.replacing import Replaceable, answers, discard
from kafkaclient.tail import backwards, further
from runtime.clients import bisection, kafka, pace, topiclimits, topicneeds
from runtime.clients.bisection import Bisection, RefusalCause
from runtime.clients.topiclimits import TopicLimits
from runtime.encode import json_text, protobuf, rows
from runtime.encode.readback import from_columns, from_json, from_message
from runtime.encode.rows import Refusal
from runtime.errors import JobError, TemporaryError, external
from runtime.hiding import redact
from runtime.recent import cache_in_use
from runtime.sinks import TAKES_ROWS, Outcome, Source, Target

DELIVERY_TIMEOUT_MS = 10_000
PROBE_S = 5.0
READ_RANK = 1
JSON_TYPE = "daggers.v1.Row"
_SPARE = 1_000
# librdkafka's own codes have a leading underscore and are as public as the broker's.
_VALUES = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_MSG,
    KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001 - see above
}
"""Codes about a record, about a batch for the sake of one of its records, or about its other records."""
_MISSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - see above
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - see above
}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - see above
}


def check(target: Target) -> None:
    """Raise `JobError` for rows that do not fit the sink's message, and for a topic that takes none of them.
    Silence is no error.
    """
    if not target.layout.has_records:
        _Values(target).encode(target.no_rows)
    _check_topic(target)


def ask(target: Target) -> str:
    """Describe the topic as the broker has it. Raises: JobError."""
    probe(target)
    return _check_topic(target) or TAKES_ROWS


def _check_topic(target: Target) -> str:
    sink = target.resolved
    return topicneeds.check(kafka.client_properties(sink.kafka), sink.sink.kafka.topic)


def probe(target: Target) -> None:
    """Raise `JobError` while the broker does not say where the topic is."""
    address, topic = target.resolved.kafka, target.resolved.sink.kafka.topic
    client = _client(address.SerializeToString(deterministic=True), target.dagger, topic)
    client.errors.clear()
    try:
        client.producer.list_topics(topic, PROBE_S)
    except KafkaException as silence:
        client.producer.poll(0)
        if address.secret_properties:
            _client.cache_clear()  # the next one reads its password as it is then
        if (denial := client.find_denial()) is not None:
            raise _denied_error(f"Kafka at {address.bootstrap_servers}", topic, denial) from None
        detail = f"Kafka at {address.bootstrap_servers} does not answer: {silence.args[0].str()}."
        raise TemporaryError("SINK_UNAVAILABLE", detail) from None


def open(target: Target) -> KafkaWriter:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    return KafkaWriter(target)


_Headers = list[tuple[str, bytes | None]]
_Decoder = Callable[[bytes], dict[str, Any]]
_Record = tuple[str | bytes | None, bytes | None, _Headers | str | None]
"""Key, value, and of a record that was read its headers, of a row its time: headers of rows are made when
each is produced. Those of a whole batch keep Python's collector busy, which took a third of the time.
"""
RECORD_ID = "daggers_id"
"""Header of a record that is passed on as it was read."""


class _Values:
    """Encoder of the records' values, in the sink's format."""

    def __init__(self, target: Target) -> None:
        sink = target.resolved.sink.kafka
        self._layout = target.layout
        self._messages = None
        self.type, self.content_type = JSON_TYPE, cloudevents.JSON
        if sink.format == spec_pb2.KafkaSink.FORMAT_PROTOBUF:
            self._messages = protobuf.encoder(target.layout, target.schema, target.descriptors, sink.message)
            self.type, self.content_type = sink.message, cloudevents.PROTOBUF

    def encode(self, batch: pa.RecordBatch) -> tuple[list[bytes | None], list[Refusal]]:
        """Encode one value for each row, None where it is refused, and the refusals."""
        if self._messages is not None:
            return self._messages.encode(batch)
        columns = [(column.name, values) for column, values in self._layout.visible(batch)]
        return [text.encode() for text in json_text.objects(columns)], []


class KafkaWriter:
    """Produces the rows of a batch and waits until the broker has acknowledged each."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._topic = target.resolved.sink.kafka.topic
        self._address = target.resolved.kafka
        self._place = f"Kafka at {self._address.bootstrap_servers}"
        self._has_looked = False
        """True once the limits of the topic were read again for this batch."""
        self._values = None if target.layout.has_records else _Values(target)

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Write a batch; returns the rows that do not fit or that the broker refused.

        Raises: TemporaryError while the broker takes none.
        """
        self._has_looked = False
        encoded, refusals = self._records(batch)
        records = list(encoded)
        if self._client.limits.is_compacted:
            keyless = [row for row, record in enumerate(records) if record is not None and record[0] is None]
            refusals += (Refusal(row, "NO_KEY", self._needs_a_key, by_server=True) for row in keyless)
            for row in keyless:
                records[row] = None
        left = [row for row, record in enumerate(records) if record is not None]
        history = bisection.history_of((self._target.sink, self._topic))
        may_refuse = self._target.may_refuse_all
        rows = Bisection([left] if left else [], history, time.monotonic(), may_refuse=may_refuse)
        while (part := rows.next(time.monotonic())) is not None:
            self._settle(rows, part, records, self._produce_rows(part, records, batch_id))
        return Outcome(refused=[*refusals, *rows.finish(time.monotonic())])

    @property
    def _client(self) -> _Client:
        """The producer of this process. Raises: JobError."""
        address = self._address.SerializeToString(deterministic=True)
        return _client(address, self._target.dagger, self._topic)

    @property
    def _needs_a_key(self) -> str:
        return f"The topic {self._topic} is compacted: a record of it has to have a key."

    def _produce_rows(
        self, part: Sequence[int], records: Sequence[_Record | None], batch_id: int
    ) -> dict[int, KafkaError]:
        """Produce these rows, and wait until each is acknowledged or has failed; return the failures.

        Raises: TemporaryError where the broker does neither.
        """
        client = self._client
        producer = client.producer
        client.errors.clear()
        failures: dict[int, KafkaError] = {}
        sink_pace = pace.of(self._target.resolved)
        most = sink_pace.max_rows(len(part))
        for number, row in enumerate(part):
            if number % most == 0:
                sink_pace.wait(min(most, len(part) - number))
            if (record := records[row]) is not None:
                _produce(producer, self._topic, record, self._headers(record, batch_id), row, failures)
        # Every record is acknowledged or has failed by its own time limit; the rest is time for the reports.
        # Not so where this process was stopped meanwhile.
        unheard = producer.flush(DELIVERY_TIMEOUT_MS / 1000 + 5)
        for error in failures.values():
            if error.code() not in _VALUES:
                self._raise_state(error, client)
        if unheard:
            client.note_failure()
            raise TemporaryError("SINK_UNAVAILABLE", f"{self._place} has not taken {unheard} records yet.")
        client.producers.note_success()
        return failures

    def _settle(
        self,
        rows: Bisection,
        part: Sequence[int],
        records: Sequence[_Record | None],
        failures: Mapping[int, KafkaError],
    ) -> None:
        """Settle rows that were produced.

        A batch of the client's fails whole, for one of its records or because it is too large: of its rows
        halves are tried, and with them those of their keys that were written behind them, so that the last of
        a key stays the last.
        """
        if not failures:
            rows.accept(part)
            return
        if len(failures) == 1:
            [(row, error)] = failures.items()
            rows.settle_each(part, [(row, self._refusal(error))], (), time.monotonic())
            return
        failed_keys = {record[0] for row in failures if (record := records[row]) is not None} - {None}
        first = min(failures)
        again = [
            row
            for row in part
            if row in failures
            or (row > first and (record := records[row]) is not None and record[0] in failed_keys)
        ]
        is_large = any(error.code() == KafkaError.MSG_SIZE_TOO_LARGE for error in failures.values())
        if is_large and self._fits_anew():
            rows.settle_each(part, (), [again], time.monotonic())
            return
        half = (len(again) + 1) // 2
        rows.settle_each(part, (), [again[:half], again[half:]], time.monotonic())

    def _fits_anew(self) -> bool:
        """Tell whether the topic takes less than this process knew; batches are made to fit from then on."""
        if self._has_looked:
            return False
        self._has_looked = True
        if topiclimits.of(kafka.client_properties(self._address), self._topic) == self._client.limits:
            return False
        _client.cache_clear()
        return True

    def _refusal(self, error: KafkaError) -> RefusalCause:
        return RefusalCause("SINK_REFUSED", f"{self._place} refuses the record: {redact(error.str())}.")

    def finish(self) -> Outcome:
        """Refuse no more rows: all that were written are durable."""
        return Outcome()

    def _records(self, batch: pa.RecordBatch) -> tuple[Iterable[_Record | None], list[Refusal]]:
        """Build the record of each row, None where it is refused, and the refusals."""
        layout = self._target.layout
        keys = rows.keys(layout, batch)
        if self._values is None:
            return self._as_read(batch, keys), []
        values, refusals = self._values.encode(batch)
        encoded = zip(keys, values, _times(layout, batch), strict=True)
        return (None if record[1] is None else record for record in encoded), refusals

    def _as_read(self, batch: pa.RecordBatch, keys: Sequence[str]) -> Iterator[_Record]:
        """Yield records as they were read; one without a value is a tombstone."""
        value, key, headers = (batch.column(name).to_pylist() for name in query.RECORD_COLUMNS)
        for row, row_key in enumerate(keys):
            own = [(header["key"], header["value"]) for header in headers[row] or ()]
            row_id = rows.event_id(self._target.dagger, row_key, None).encode()
            yield key[row], value[row], [*own, (RECORD_ID, row_id)]

    def _headers(self, record: _Record, batch_id: int) -> _Headers:
        key, _, headers = record
        if isinstance(headers, list):
            return headers
        assert self._values is not None  # else it is a record that was read
        return self._of_row(self._values, str(key), headers, batch_id)

    def _of_row(self, values: _Values, key: str, time: str | None, batch_id: int) -> _Headers:
        event = rows.event_id(self._target.dagger, key, batch_id if self._target.updates else None)
        if self._target.corrects:  # another event than that of the row before
            event = f"{event}/r{self._target.corrects}"
        return [
            *cloudevents.headers(
                ce_id=event,
                ce_type=values.type,
                source=f"/daggers/{self._target.dagger}",
                subject=self._target.dagger,
                time=time,
                content_type=values.content_type,
            )
        ]

    def _raise_state(self, error: KafkaError, client: _Client) -> NoReturn:
        """Raise the error of a failure that is about no record."""
        words = redact(error.str())
        code = error.code()
        if code in _MISSING:
            raise external(
                "SINK_MISSING",
                f"{self._place} has no topic {self._topic!r} and does not create it ({words}); create it.",
                retryable=True,
            )
        denial = error if code in _DENIED else client.find_denial()
        if denial is not None:
            _client.cache_clear()  # the next one reads its password as it is then
            raise _denied_error(self._place, self._topic, denial)
        if error.fatal() or self._address.secret_properties:
            # This producer will never work again, or not with a password that was replaced meanwhile.
            _client.cache_clear()
        client.note_failure()
        raise TemporaryError("SINK_UNAVAILABLE", f"{self._place} does not take records now: {words}.")


def _produce(
    producer: Producer,
    topic: str,
    record: _Record,
    headers: _Headers,
    row: int,
    failures: dict[int, KafkaError],
) -> None:
    """Hand one record to the client; waits while its queue is full."""
    key, value, _ = record
    while True:
        try:
            producer.produce(
                topic, value, key, headers=[*headers], on_delivery=partial(_record_failure, failures, row)
            )
        except BufferError:
            producer.poll(0.1)
        except KafkaException as refused:
            failures[row] = refused.args[0]
            return
        else:
            return


def _record_failure(failures: dict[int, KafkaError], row: int, error: KafkaError | None, _: Any) -> None:
    if error is not None:
        failures[row] = error


def _times(layout: rows.Layout, batch: pa.RecordBatch) -> list[str | None]:
    """Return the time of each row, for ce_time."""
    if layout.time is None:
        return [None] * batch.num_rows
    return json_text.shortest_times(batch.column(layout.time))


def _denied_error(place: str, topic: str, error: KafkaError) -> JobError:
    words = redact(error.str())
    text = f"{place} does not let this job write to {topic!r} ({words}); check its rights."
    return external("SINK_DENIED", text, retryable=True)


@dataclass(frozen=True, slots=True)
class _Client:
    """Producer, and the errors that it has reported beside the failures of records."""

    producers: Replaceable[Producer]
    errors: list[KafkaError]
    limits: TopicLimits
    """Limits of its topic, as they were when it was opened."""

    @property
    def producer(self) -> Producer:
        """Producer as it is now."""
        return self.producers.current

    def note_failure(self) -> None:
        """Count rows that were not taken: they are written again, under the same ids, perhaps by another
        producer.
        """
        if self.producers.note_failure():
            logger().warning("kafka.producer_replaced")

    def find_denial(self) -> KafkaError | None:
        """Return the broker's last refusal to let it in. Records do not fail of that before their time is
        over.
        """
        return next((error for error in reversed(self.errors) if error.code() in _DENIED), None)


@cache_in_use
def _client(address: bytes, dagger: str, topic: str) -> _Client:
    """Open an idempotent producer, which the worker keeps between batches with its connections.

    There is one for each dagger, which alone waits for its rows, and each topic, whose batches fit it.
    """
    del dagger
    defaults = {
        "compression.type": "lz4",
        "linger.ms": 5,
        "partitioner": "murmur2_random",  # the Java client's, so that equal keys meet
    }
    # The last two are one property, and the last one set counts.
    most = dict.fromkeys(("delivery.timeout.ms", "message.timeout.ms"), DELIVERY_TIMEOUT_MS)
    required = {"enable.idempotence": True, "acks": "all", **most}
    properties = kafka.client_properties(spec_pb2.KafkaAddress.FromString(address))
    limits = topiclimits.of(properties, topic)
    errors: list[KafkaError] = []
    reporting = {"error_cb": errors.append}
    producing = {**defaults, **limits.properties, **properties, **required, **reporting}
    make = partial(kafka.client, Producer, producing)
    return _Client(Replaceable(lambda _: make(), lambda: answers(properties), discard), errors, limits)


def read(source: Source, wanted: Selection) -> list[Row]:
    """Read the rows written last, the last one first; one written more than once counts by its last time.

    Each partition is read backwards until it has enough; for an order all of it.
    """
    address, topic = source.resolved.kafka, source.resolved.sink.kafka.topic
    decode = _decoder(source)
    read_back: list[_TimedRow] = []
    with closing(kafka.consumer(address, "daggers-rows")) as consumer, kafka.mapping_errors(address):
        for messages in backwards(consumer, topic, wanted.since):
            read_back += _select(messages, decode, wanted)
    read_back.sort(key=lambda line: line.written)
    last = {line.row.key: line for line in read_back}
    return wanted.first(line.row for line in reversed(read_back) if last[line.row.key] is line)


def watch(source: Source, limit: int) -> Generator[list[Row]]:
    """Read the newest rows again and again: the ones before are remembered, and only what comes is read."""
    address, topic = source.resolved.kafka, source.resolved.sink.kafka.topic
    decode, latest = _decoder(source), dict[str, Row]()
    with closing(kafka.consumer(address, "daggers-rows")) as consumer:
        while True:
            with kafka.mapping_errors(address):
                messages = further(consumer, topic, limit)
            for message in sorted(messages, key=_write_time):
                if (row := _row(message, decode)) is not None:
                    latest.pop(row.key, None)
                    latest[row.key] = row
            rows = [*reversed(latest.values())][:limit]
            yield rows
            latest = {row.key: row for row in reversed(rows)}


@dataclass(frozen=True, slots=True)
class _TimedRow:
    """Row with the time of its write: milliseconds and offset."""

    written: tuple[int, int]
    row: Row


def _select(messages: Iterable[Message], decode: _Decoder, wanted: Selection) -> list[_TimedRow]:
    """Select the rows of a partition that may be wanted; its last record comes first."""
    since = wanted.since.timestamp() * 1000 if wanted.since else 0
    read_back: dict[str, _TimedRow] = {}
    for message in messages:
        row = _row(message, decode)
        if row is None or row.key in read_back or _write_time(message)[0] < since or not wanted.wants(row):
            continue
        read_back[row.key] = _TimedRow(_write_time(message), row)
        if len(read_back) < wanted.limit:
            continue
        if wanted.order is None:
            break
        if len(read_back) > 2 * wanted.limit + _SPARE:
            first = wanted.first(line.row for line in read_back.values())
            read_back = {row.key: read_back[row.key] for row in first}
    return list(read_back.values())


def _row(message: Message, decode: _Decoder) -> Row | None:
    """Decode the row of a record; None where somebody else has written it."""
    try:
        return from_columns(decode(message.value() or b""), _identity(message))
    except (ValueError, DecodeError):
        return None


def _decoder(source: Source) -> _Decoder:
    """Return the decoder of a record's columns. It raises: ValueError, DecodeError."""
    sink = source.resolved.sink.kafka
    if sink.format == spec_pb2.KafkaSink.FORMAT_RECORD:
        return lambda value: {"value": base64.b64encode(value).decode()}
    if sink.format != spec_pb2.KafkaSink.FORMAT_PROTOBUF:
        return from_json
    kind = protobuf.message_class(source.descriptors.SerializeToString(deterministic=True), sink.message)
    return lambda value: from_message(kind.FromString(value))


def _write_time(message: Message) -> tuple[int, int]:
    """Return when a record was written: ms, and its offset, which orders one partition's of a millisecond."""
    _, milliseconds = message.timestamp()
    return milliseconds, message.offset() or 0


def _identity(message: Message) -> str:
    """Return the id that repeats with the row, CloudEvents' or ours, which is last; else its place."""
    headers: Any = message.headers()  # the stubs allow shapes that librdkafka never gives
    for name, value in reversed(headers or ()):
        if name in ("ce_id", RECORD_ID) and isinstance(value, bytes):
            return value.decode(errors="replace")
    return f"{message.partition()}/{message.offset()}"
