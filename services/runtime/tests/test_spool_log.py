"""The log of a sink: in a topic, and that in memory, which stands for it in other tests."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import COUNTS, batch, target
from services.runtime.tests.spool_log import MemoryAddress

from runtime.errors import JobError
from runtime.sinks import BatchRef
from runtime.spool import log as spool_log
from runtime.spool.log import Log, Record, TopicAddress, find_sinks, topic_of
from runtime.spool.marker import Marker, SpooledPart
from runtime.spool.writer import RECORD_BYTES, SpoolWriter, from_stream


@pytest.fixture(params=["topic", "memory"])
def open_log(request: pytest.FixtureRequest) -> Callable[[], Log]:
    """Opens the same new log again and again."""
    if request.param == "memory":
        return MemoryAddress(uuid4().hex).open
    kafka = request.getfixturevalue("kafka")
    platform = spec_pb2.KafkaAddress(bootstrap_servers=kafka)
    return TopicAddress(platform.SerializeToString(), topic_of(f"d{uuid4().hex[:8]}", "crm")).open


def test_what_is_appended_is_there_in_order_until_it_is_deleted(open_log: Callable[[], Log]) -> None:
    log = open_log()
    before = log.bounds()
    log.create()
    log.create()
    end = log.append([Record(b"one", "a"), Record(b"two", "b")])
    further = log.append([Record(b"marker")])
    there = list(open_log().read(0, further))
    log.delete_until(end)

    assert (before, end, further) == ((0, 0), 2, 3)
    assert there == [(0, Record(b"one", "a")), (1, Record(b"two", "b")), (2, Record(b"marker"))]
    assert (log.bounds(), list(log.read(2, 3))) == ((2, 3), [(2, Record(b"marker"))])
    log.delete_until(further)
    assert (log.bounds(), list(log.read(3, 3))) == ((3, 3), [])


def test_large_rows_are_split_and_come_back(open_log: Callable[[], Log]) -> None:
    log = open_log()
    log.create()
    rows = pa.RecordBatch.from_pydict({"text": ["x" * 3_000] * 1_000})
    writer = SpoolWriter(log, 4)
    writer.write(rows, 0)
    writer.finish()
    part = writer.part
    records = [record for _, record in log.read(*log.bounds())]

    assert max(len(record.value) for record in records) < RECORD_BYTES * 1.1
    assert (part.number, part.records, part.rows) == (4, len(records), 1_000)
    assert {record.attempt for record in records} == {part.attempt}
    assert pa.Table.from_batches([each for one in records for each in from_stream(one.value)]) == (
        pa.Table.from_batches([rows])
    )


def test_the_logs_of_a_dagger_are_found_by_its_sinks(kafka: str) -> None:
    platform, dagger = spec_pb2.KafkaAddress(bootstrap_servers=kafka), f"d{uuid4().hex[:8]}"
    for name, sink in ((dagger, "crm"), (dagger, "db"), (f"{dagger}x", "no")):
        TopicAddress(platform.SerializeToString(), topic_of(name, sink)).open().create()

    assert find_sinks(platform, dagger) == {"crm", "db"}


def test_a_kafka_that_is_away_is_an_error_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_log, "_PATIENCE_S", 0.5)
    platform = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1", properties={"log_level": "0"})
    with pytest.raises(JobError) as failed:
        TopicAddress(platform.SerializeToString(), "daggers.spool.d.crm").open().bounds()

    assert (failed.value.error.reason, failed.value.error.retryable) == ("KAFKA_UNREACHABLE", True)


def test_a_marker_says_all_that_is_needed_to_write_its_rows() -> None:
    sink = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(name="crm", log=spec_pb2.LogSink(limit=3)))
    recorded = target("d", sink, b"descriptors")
    marker = Marker(
        BatchRef("fingerprint/query", 3, 7), (SpooledPart(0, "a", 2, 3, 100),), 1.5, recorded, 2.5
    )
    back = Marker.decode(marker.encode())

    assert (back.batch, back.parts, back.oldest, back.marked) == (marker.batch, marker.parts, 1.5, 2.5)
    assert (back.target.resolved, back.target.layout) == (sink, recorded.layout)
    assert back.target.schema.equals(batch(COUNTS).schema, check_metadata=True)
    with pytest.raises(ValueError, match="header"):
        Marker.decode(b"nonsense")
