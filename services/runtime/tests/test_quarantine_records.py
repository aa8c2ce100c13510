"""What the quarantine holds of a record: all within limits, under an id that repeats with it."""

import hashlib
import multiprocessing
import resource
import secrets
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from daggers.v1 import spec_pb2, telemetry_pb2
from services.runtime.tests.sink_contract import create, records
from services.runtime.tests.source_assignment import reader_plan
from services.runtime.tests.streams import FILES, Feed

from daggerspec.columns import Column, Role
from daggerspec.topics import QUARANTINE
from runtime import errors
from runtime.clients.quarantine import (
    MAX_KEY_BYTES,
    MAX_ROW_BYTES,
    MAX_VALUE_BYTES,
    MAX_WAITING_KIB,
    Quarantine,
)
from runtime.encode.rows import Layout, Refusal, event_id
from runtime.errors import JobError
from runtime.launch.refused_rows import quarantine_records
from runtime.sinks import Target
from runtime.source.offsets import Offsets, Partition
from runtime.source.reader import task
from runtime.source.tasks import OffsetRange, ReadRanges


@pytest.mark.integration
def test_a_record_is_a_cloudevent_whose_id_tells_topics_of_one_name_apart(kafka: str) -> None:
    name = f"d{uuid4().hex[:8]}"
    quarantine = Quarantine({"bootstrap.servers": kafka})
    for topic_id in ("here", "here", "elsewhere"):
        quarantine.put(
            telemetry_pb2.Quarantined(
                dagger=name, generation=7, topic="t", partition=3, offset=42, reason="MALFORMED",
                value=b"v" * (MAX_VALUE_BYTES + 1), key=b"k" * (MAX_KEY_BYTES + 1),
            ),
            topic_id,
        )  # fmt: skip
    quarantine.flush()

    consumer = Consumer({"bootstrap.servers": kafka, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([QUARANTINE])
    found = []
    while len(found) < 3:
        message = consumer.poll(30.0)
        assert message is not None
        if message.key() == name.encode():
            found.append(message)
    consumer.close()
    headers = [dict(message.headers() or []) for message in found]
    record = telemetry_pb2.Quarantined.FromString(found[0].value() or b"")

    assert (
        [header["ce_id"] for header in headers],
        headers[0]["ce_type"],
        headers[0]["ce_subject"],
        headers[0]["content-type"],
        (len(record.value), len(record.key), record.HasField("time")),
    ) == (
        [f"{name}/t/3/42/{topic_id}".encode() for topic_id in ("here", "here", "elsewhere")],
        b"daggers.v1.Quarantined",
        name.encode(),
        b"application/protobuf",
        (MAX_VALUE_BYTES, MAX_KEY_BYTES, True),
    )


LAYOUT = Layout(
    (Column("tag_city", Role.TAG, "tag_city", "string"), Column("bytes", Role.FIELD, "bytes", "binary")),
    hidden=("__rowtime", "__key_0", "__key_1", "__key_2"),
)
ROWS = pa.table(
    {
        "tag_city": ["1", "2", None],
        "bytes": [b"\x00\xff", None, b""],
        "__rowtime": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        "__key_0": ["topic"] * 3,
        "__key_1": pa.array([3, 3, 3], pa.int32()),
        "__key_2": pa.array([41, 42, 43], pa.int64()),
    }
).to_batches()[0]


def set_aside(name: str = "crm", rows: pa.RecordBatch = ROWS) -> list[telemetry_pb2.Quarantined]:
    """The records of all rows, as the quarantine takes them."""
    sink = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(name=name, log=spec_pb2.LogSink()))
    written = Target("d", sink.SerializeToString(), LAYOUT, rows.schema, b"", updates=False)
    quarantine = Quarantine({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"})
    refusals = [Refusal(row, "SINK_REFUSED", "no") for row in range(rows.num_rows)]
    records = []
    for record, key in quarantine_records(written, rows, refusals):
        assert quarantine.put(record, event_id(name, key, None)) == record.ByteSize()
        records.append(record)
    return records


def test_a_row_is_kept_whole_with_its_types_and_its_hidden_columns() -> None:
    records = set_aside()

    read = [pa.ipc.open_stream(record.row).read_all() for record in records]
    assert [each.schema for each in read] == [ROWS.schema] * 3
    assert pa.concat_tables(read).to_pylist() == ROWS.to_pylist()
    assert [(record.partition, record.offset, record.sink) for record in records] == [
        (3, offset, "crm") for offset in (41, 42, 43)
    ]


def test_a_row_that_is_set_aside_again_has_its_id_and_no_other_has_it() -> None:
    ids = [record.id for record in set_aside()]

    assert ids == [record.id for record in set_aside(rows=ROWS.take(pa.array([0, 1, 2])))]
    assert len({*ids, *(record.id for record in set_aside("another"))}) == 6
    assert {len(bytes.fromhex(id_)) for id_ in ids} == {16}


@pytest.mark.parametrize(("size", "kept"), [(1, True), (MAX_ROW_BYTES - 4096, True), (MAX_ROW_BYTES, False)])
def test_a_row_that_is_too_large_is_left_out_and_no_record_is_larger_than_a_broker_takes(
    size: int, *, kept: bool
) -> None:
    wide = ROWS.slice(0, 1).set_column(0, "tag_city", pa.array(["é" * (size // 2)]))

    [record] = set_aside(rows=wide)

    assert (bool(record.row), record.truncated) == (kept, not kept)
    assert record.ByteSize() < 1_000_000


def test_of_a_value_that_is_cut_it_is_known_what_it_was() -> None:
    value = b"v" * (MAX_VALUE_BYTES + 1)
    record = telemetry_pb2.Quarantined(dagger="d", topic="t", value=value)
    whole = telemetry_pb2.Quarantined(dagger="d", topic="t", value=value[1:])
    quarantine = Quarantine({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"})
    for each in (record, whole):
        quarantine.put(each, "id")

    assert (record.truncated, record.sha256) == (True, hashlib.sha256(value).digest())
    assert (whole.truncated, whole.sha256) == (False, b"")


def takes(kafka: str, topic: str, size: int) -> bool:
    """Whether a topic takes a record of so many bytes: one without a value."""
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, key=bytes(size), on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(30) == 0
    return not failures


@pytest.mark.integration
@pytest.mark.parametrize("when", ["before it is opened", "while it writes"])
def test_what_the_broker_takes_not_even_alone_is_kept_by_reference_and_hash(
    kafka: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Whether the topic's limit is known, or the broker says so; what fits beside it is kept whole."""
    topic = create(kafka, NewTopic(f"quarantine-{uuid4().hex[:8]}", 1, 1))
    monkeypatch.setattr("runtime.clients.quarantine.QUARANTINE", topic)
    admin = AdminClient({"bootstrap.servers": kafka})

    def limit() -> None:
        most = ConfigEntry("max.message.bytes", "30000", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[most])
        for done in admin.incremental_alter_configs([change]).values():
            done.result(30)
        # The broker answers before it goes by that.
        end = time.monotonic() + 60
        while takes(kafka, topic, 40_000):
            assert time.monotonic() < end, "the limit of the topic does not come"

    if when == "before it is opened":
        limit()
    quarantine = Quarantine({"bootstrap.servers": kafka})
    limit()
    large, small = secrets.token_bytes(200_000), [secrets.token_bytes(9_000) for _ in range(5)]
    for number, value in enumerate([*small[:3], large, *small[3:]]):
        record = telemetry_pb2.Quarantined(dagger="d", topic="t", offset=number, value=value, key=b"k")
        quarantine.put(record, "id")
    quarantine.flush()

    values = [record.value() for record in records(kafka, topic)]
    found = [telemetry_pb2.Quarantined.FromString(value) for value in values if value is not None]
    by_offset = {record.offset: record for record in found}
    kept = by_offset.pop(3)
    assert sorted(record.value for record in by_offset.values()) == sorted(small)
    assert (kept.key, kept.sha256, kept.truncated) == (b"k", hashlib.sha256(large).digest(), True)
    assert len(kept.value) < 30_000


def test_a_kafka_that_stays_away_fails_the_batch_and_not_for_good() -> None:
    quarantine = Quarantine({"bootstrap.servers": "127.0.0.1:1"}, patience_s=0.2)
    quarantine.put(telemetry_pb2.Quarantined(dagger="d", topic="t", reason="MALFORMED", value=b"x"), "id")

    with pytest.raises(JobError) as failed:
        quarantine.flush()

    told = failed.value.error
    assert (told.domain, told.reason, told.retryable) == (errors.EXTERNAL, "QUARANTINE_UNREACHABLE", True)
    assert "1 quarantined records" in told.detail


def test_what_waits_for_a_kafka_that_is_away_is_bounded_in_bytes() -> None:
    quarantine = Quarantine({"bootstrap.servers": "127.0.0.1:1"}, patience_s=0.2)
    size = 256 * 1024
    record = telemetry_pb2.Quarantined(dagger="d", topic="t", reason="MALFORMED", value=b"x" * size)
    room = MAX_WAITING_KIB * 1024 // size
    for _ in range(room - 1):
        quarantine.put(record, "id")

    with pytest.raises(JobError, match="QUARANTINE_UNREACHABLE"):
        deque((quarantine.put(record, "id") for _ in range(room)), maxlen=0)


FAT, FEW, FLOOD = b"\xff" * 4096, 10_000, 40_000


def grown_by_a_flood(kafka: str, topic: str, run_dir: Path) -> int:
    """How many bytes more this process holds at most while it reads a flood than while it reads a few."""
    plan = replace(
        reader_plan(run_dir), topics=(topic,), message="t.Booking", time_field="event_timestamp",
        descriptors=FILES.SerializeToString(), kafka={"bootstrap.servers": kafka},
        platform={"bootstrap.servers": kafka}, start=Offsets({topic: "id"}, {Partition(topic, 0): 0}),
    )  # fmt: skip
    peaks = []
    for start, end in ((0, FEW), (FEW, FEW + FLOOD)):
        ranges = (OffsetRange(Partition(topic, 0), "id", start, end),)
        rows = list(task.run(plan, ReadRanges(ranges, int(time.time() * 1000), siblings=1)))
        assert sum(batch.num_rows for batch in rows) < FEW
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return peaks[1] - peaks[0]


@pytest.mark.integration
def test_a_flood_of_undecodable_records_goes_to_the_quarantine_as_it_comes(
    kafka: str, tmp_path: Path
) -> None:
    feed = Feed(kafka)
    feed.create()
    feed.send([FAT] * (FEW + FLOOD))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        grown = process.submit(grown_by_a_flood, kafka, feed.topic, tmp_path).result()

    assert grown < FLOOD * len(FAT) / 3  # each is held twice where it is held
