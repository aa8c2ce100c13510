"""Late records are written by their readers, with the first window that each is missing from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic
from daggers.v1 import spec_pb2
from hypothesis import given
from hypothesis import strategies as st
from services.runtime.tests.sink_contract import create, fresh_topic, records

from daggerspec import late
from runtime.sinks.kafka import RECORD_ID
from runtime.source.offsets import Partition
from runtime.source.reader.control_rows import ROWTIME, TIME, Reason
from runtime.source.reader.late_records import OFFSET, LateRecords, late_target
from runtime.source.records import Records
from runtime.source.watermark import Lateness, Windows

MINUTES = Windows(60_000, 60_000)
HOP = Windows(60_000, 20_000)
SESSION = Windows(30_000, 0)


@given(
    times=st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20),
    steps=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    watermark=st.integers(-(10**6), 10**6),
    allowed=st.integers(0, 10**5),
)
def test_the_first_window_of_a_late_row_is_the_earliest_that_holds_it_and_is_closed(
    times: list[int], steps: tuple[int, int], watermark: int, allowed: int
) -> None:
    size, slide = max(steps) * 1000, min(steps) * 1000
    windows = Windows(size, slide, (0, allowed))
    micros = np.array(times)

    starts, missed = windows.earliest_starts_us(micros), windows.count_missed(micros, watermark)

    for time, start, count in zip(times, starts.tolist(), missed.tolist(), strict=True):
        first = (time // 1000 - size) // slide * slide  # of those that may hold it, or one before
        holding = [
            begin for begin in range(first, time // 1000 + slide, slide)
            if begin * 1000 <= time < (begin + size) * 1000
        ]  # fmt: skip
        closed = [begin for begin in holding if begin + size + allowed <= watermark]
        assert (start, count) == (holding[0] * 1000, len(closed))
        assert not closed or closed[0] == holding[0]


def kept_in(kafka: str, topic: str) -> bytes:
    """Build the sink of late records, as a launch has it."""
    sink = spec_pb2.ResolvedSink()
    sink.kafka.bootstrap_servers = kafka
    sink.sink.name, sink.sink.kafka.topic = "late", topic
    sink.sink.kafka.format = spec_pb2.KafkaSink.FORMAT_RECORD
    return sink.SerializeToString()


def read(times_s: list[int], keys: list[bytes | None]) -> tuple[pa.RecordBatch, Records]:
    """Records at these seconds, at offsets 100, 102 and so on, and the rows made of all but the first."""
    offsets = np.arange(100, 100 + 2 * len(times_s), 2)
    values = pa.array([f"value {time}".encode() for time in times_s], pa.binary())
    micros = pa.array([time * 10**6 for time in times_s]).cast(TIME)
    rows = pa.RecordBatch.from_arrays([micros, pa.array(offsets)], names=[ROWTIME, OFFSET])
    return rows.slice(1), Records(offsets, offsets, values, pa.array(keys, pa.binary()))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (MINUTES, {102: (0, 60, 1), 104: (60, 120, 1), 106: (120, 180, 1), 108: (120, 180, 1)}),
        (HOP, {102: (-40, 20, 3), 104: (60, 120, 3), 106: (80, 140, 3), 108: (120, 180, 1)}),
        (SESSION, {102: (10, 40, 1), 104: (119, 149, 1), 106: (130, 160, 1)}),
    ],
    ids=["TUMBLE", "HOP", "SESSION"],
)
def test_late_records_are_written_as_they_were_read_with_the_window_they_missed(
    kafka: str, windows: Windows, expected: dict[int, tuple[int, int, int]]
) -> None:
    topic, place = fresh_topic(kafka), Partition("orders", 3)
    late_records = LateRecords(late_target("d", kept_in(kafka, topic)), Lateness((windows,), 180_000))
    rows, read_records = read([5, 10, 119, 130, 179, 400], [b"a", b"b", None, b"d", b"e", b"f"])

    refused = [*late_records.add(rows, read_records, place), *late_records.flush()]
    again = [*late_records.add(rows, read_records, place), *late_records.flush()]

    found = {}
    ids: dict[bytes, set[bytes]] = {}
    written = records(kafka, topic)
    for record in written:
        headers = dict(record.headers() or [])
        ids.setdefault(headers[late.RECORD], set()).add(headers[RECORD_ID])
        bounds = (headers[late.WINDOW_START].decode(), headers[late.WINDOW_END].decode())
        found[headers[late.RECORD].decode()] = (record.key(), record.value(), *bounds, headers[late.MISSED])
    keys = {102: b"b", 104: None, 106: b"d", 108: b"e"}
    seconds = {102: 10, 104: 119, 106: 130, 108: 179}
    assert found == {
        f"orders/3/{offset}": (
            keys[offset], f"value {seconds[offset]}".encode(), iso(start), iso(end), str(missed).encode()
        )
        for offset, (start, end, missed) in expected.items()
    }  # fmt: skip
    assert (refused, again, len(written)) == ([], [], 2 * len(expected))
    assert [len(one) for one in ids.values()] == [1] * len(expected)


def iso(second: int) -> str:
    return np.datetime_as_string(np.datetime64(second, "s"), timezone="UTC").item()


@pytest.mark.integration
def test_a_late_record_that_its_sink_refuses_is_quarantined(kafka: str) -> None:
    topic = create(kafka, NewTopic("late-compacted-refused", 1, 1, config={"cleanup.policy": "compact"}))
    late_records = LateRecords(late_target("d", kept_in(kafka, topic)), Lateness((MINUTES,), 180_000))
    rows, read_records = read([5, 10, 119, 400], [b"a", b"b", None, b"d"])

    [(refused, partition)] = [
        *late_records.add(rows, read_records, Partition("orders", 3)), *late_records.flush()
    ]  # fmt: skip

    assert (refused.reason, refused.offset, partition) == (Reason.LATE_REFUSED, 104, ("orders", 3))
    assert refused.detail.startswith("It was late, and late refuses it: The topic")
    assert [record.key() for record in records(kafka, topic)] == [b"b"]
