"""Rows of records: what is kept, what is counted, and how far event time is moved."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from confluent_kafka import Message
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from daggersql import Condition
from runtime.decode.decoder import Decoder, find_message
from runtime.source.event_times import EventTimes
from runtime.source.offsets import Partition
from runtime.source.reader.control_rows import (
    ROWTIME,
    RangeStatistics,
    Reason,
    statistics_row,
    with_statistics,
)
from runtime.source.reader.marks import times_of
from runtime.source.reader.rows import Rows, filter_rows
from runtime.source.records import Records
from runtime.source.watermark import Lateness, Windows

START_S = 1_700_000_000
PLANNED_MS = START_S * 1000
TOLERANCE_MS = 300_000
PARTITION = Partition("orders", 0)
_Field = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def pool() -> DescriptorPool:
    """A message with a time and a status."""
    order = descriptor_pb2.DescriptorProto(name="Order")
    order.field.add(
        name="time", number=1, type=_Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1
    )
    order.field.add(name="status", number=2, type=_Field.TYPE_STRING, label=1)
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="test", syntax="proto3", message_type=[order],
        dependency=[timestamp_pb2.DESCRIPTOR.name],
    )  # fmt: skip
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return pool


def messages(pool: DescriptorPool, statuses: Sequence[str]) -> list[Message]:
    """A record a second, with these statuses."""
    kind = GetMessageClass(find_message(pool, "test.Order"))
    values = [
        kind(time={"seconds": START_S + at}, status=status).SerializeToString()  # type: ignore[call-arg] # a class made at run time
        for at, status in enumerate(statuses)
    ]
    return [
        Message(topic="orders", partition=0, offset=at, value=value, timestamp=(1, (START_S + at) * 1000))
        for at, value in enumerate(values)
    ]


def test_rows_that_the_query_does_not_want_are_counted_and_move_event_time_but_are_not_passed_on(
    pool: DescriptorPool,
) -> None:
    paths = ("__offset", "status")
    rows = Rows(
        find_message(pool, "test.Order"), paths, "time", TOLERANCE_MS, (Condition("status", "=", ("DONE",)),)
    )
    statistics = RangeStatistics()
    records = messages(pool, ["DONE", "NEW", "", "DONE", "NEW"])

    batch, _ = rows.rows(Records.of(records), PARTITION, PLANNED_MS, statistics)
    observed = statistics_row(with_statistics(rows.schema), statistics).column(ROWTIME)[0].as_py().timestamp()

    assert batch.column("__offset").to_pylist() == [0, 3]
    assert (statistics.rows, observed) == (5, START_S + 4)


def test_a_row_is_late_as_soon_as_one_of_its_windows_is_closed_and_only_if_the_query_wants_it(
    pool: DescriptorPool,
) -> None:
    hop = Windows(60_000, 15_000)
    wanted = (Condition("status", "=", ("DONE",)),)
    rows = Rows(find_message(pool, "test.Order"), ("status",), "time", TOLERANCE_MS, wanted)
    begin = -(-START_S // 60) * 60
    shift = begin - START_S
    statuses = ["NEW"] * shift + ["DONE", "NEW", "DONE"] + ["DONE"] * 13
    batch, _ = rows.rows(Records.of(messages(pool, statuses)), PARTITION, PLANNED_MS, RangeStatistics())
    found = {}
    for closed in (begin, begin + 15, begin + 30, begin + 60, begin + 75):
        statistics = RangeStatistics()
        statistics.add_late(times_of(batch), Lateness((hop,), closed * 1000), counted=True)
        found[closed - begin] = (statistics.late, statistics.late_windows)

    # Of 15 wanted rows, from `begin` on, 14 are of the four windows that end after 15, 30, 45 and 60 s.
    assert found == {0: (0, 0), 15: (14, 14), 30: (15, 29), 60: (15, 59), 75: (15, 60)}


def recount(value: str | int | None, condition: Condition) -> bool:
    """What SQL means by it."""
    first = condition.values[0]
    return (
        value is not None
        and {
            "=": value == first,
            "<>": value != first,
            "<": value < first,  # type: ignore[operator]
            "<=": value <= first,  # type: ignore[operator]
            ">": value > first,  # type: ignore[operator]
            ">=": value >= first,  # type: ignore[operator]
            "IN": value in condition.values,
        }[condition.op]
    )


_SIGNS = ["=", "<>", "<", "<=", ">", ">=", "IN"]
_INT = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)])
_LONG = _INT | st.sampled_from([2**31, 2**63 - 1, -(2**63)])
_WORD = st.sampled_from(["", "a", "A", "aa", "é", "z\x00"])
_COLUMNS = [(pa.int32(), _INT, _LONG), (pa.int64(), _LONG, _LONG), (pa.string(), _WORD, _WORD)]


@given(st.sampled_from(_COLUMNS), st.sampled_from(_SIGNS), st.data())
def test_the_rows_that_meet_a_condition_are_those_that_sql_means(
    column: tuple[pa.DataType, st.SearchStrategy[str | int], st.SearchStrategy[str | int]],
    sign: str,
    data: st.DataObject,
) -> None:
    kind, values, constants = column
    given = data.draw(st.lists(st.none() | values, max_size=9))
    asked = data.draw(st.lists(constants, min_size=1, max_size=3 if sign == "IN" else 1))
    condition = Condition("x", sign, tuple(asked))

    rows = filter_rows(pa.RecordBatch.from_arrays([pa.array(given, kind)], ["x"]), [condition])

    assert rows.column("x").to_pylist() == [each for each in given if recount(each, condition)]


def test_without_a_wish_every_row_is_passed_on(pool: DescriptorPool) -> None:
    rows = Rows(find_message(pool, "test.Order"), ("status",), "time", TOLERANCE_MS)

    batch, _ = rows.rows(
        Records.of(messages(pool, ["DONE", "NEW"])), PARTITION, PLANNED_MS, RangeStatistics()
    )

    assert batch.column("status").to_pylist() == ["DONE", "NEW"]


# ---- Records from the future -------------------------------------------------------------------------------


def timed(pool: DescriptorPool, times: Sequence[tuple[int, int | None]]) -> list[Message]:
    """Records with these event times and Kafka times, in seconds after the batch was planned."""
    kind = GetMessageClass(find_message(pool, "test.Order"))
    return [
        Message(
            topic="orders", partition=0, offset=at,
            value=kind(time={"seconds": START_S + event}).SerializeToString(),  # type: ignore[call-arg]
            timestamp=(0, 0) if kafka is None else (1, PLANNED_MS + kafka * 1000),
        )
        for at, (event, kafka) in enumerate(times)
    ]  # fmt: skip


def passed(pool: DescriptorPool, times: Sequence[tuple[int, int | None]]) -> tuple[list[int], dict[int, str]]:
    """Offsets that become rows, and what is said of those that are quarantined."""
    rows = Rows(find_message(pool, "test.Order"), ("__offset",), "time", TOLERANCE_MS)
    batch, quarantined = rows.rows(Records.of(timed(pool, times)), PARTITION, PLANNED_MS, RangeStatistics())
    assert {one.reason for one in quarantined} <= {Reason.FROM_THE_FUTURE}
    return batch.column("__offset").to_pylist(), {one.offset: one.detail for one in quarantined}


def test_a_producer_whose_clock_is_ahead_writes_a_kafka_time_that_is_ahead_too_and_is_found_out(
    pool: DescriptorPool,
) -> None:
    ahead = 50 * 60

    found = passed(pool, [(ahead, ahead), (0, 0), (ahead, ahead), (300, 300), (301, 301)])

    assert found == (
        [1, 3],
        {
            0: "The record's event time is 3000 s ahead of the driver's clock when it was read.",
            2: "The record's event time is 3000 s ahead of the driver's clock when it was read.",
            4: "The record's event time is 301 s ahead of the driver's clock when it was read.",
        },
    )


def test_in_a_backlog_a_record_that_is_ahead_of_its_kafka_time_is_found_out_wherever_it_stands(
    pool: DescriptorPool,
) -> None:
    day = 24 * 60 * 60

    found = passed(pool, [(-60, -60), (-day + 400, -day), (-day + 300, -day)])

    assert found == ([0, 2], {1: "The record's event time is 400 s ahead of its Kafka time."})


def test_a_record_without_a_kafka_time_is_judged_by_the_time_of_the_batch(pool: DescriptorPool) -> None:
    assert passed(pool, [(300, None), (301, None), (-9, 0)])[0] == [0, 2]


_SECONDS = st.sampled_from([-90_000, -700, -301, -300, -299, -1, 0, 1, 299, 300, 301, 700, 90_000])


@given(st.lists(st.tuples(_SECONDS, _SECONDS | st.none()), max_size=12), st.data())
def test_each_record_is_judged_by_itself_alike_where_it_is_read_and_where_it_is_sampled(
    pool: DescriptorPool, times: list[tuple[int, int | None]], data: st.DataObject
) -> None:
    right = [
        offset
        for offset, (event, kafka) in enumerate(times)
        if event <= min(0, 0 if kafka is None else kafka) + TOLERANCE_MS // 1000
    ]
    cut = data.draw(st.integers(0, len(times)))
    rows = Rows(find_message(pool, "test.Order"), ("__offset",), "time", TOLERANCE_MS)
    records = timed(pool, times)
    read = [
        offset
        for chunk in (records[:cut], records[cut:])
        for offset in rows.rows(Records.of(chunk), PARTITION, PLANNED_MS, RangeStatistics())[0]
        .column("__offset")
        .to_pylist()
    ]
    decoder = Decoder(find_message(pool, "test.Order"), (), "time")
    sampled = [one.offset() for one, _ in EventTimes(decoder, TOLERANCE_MS, 0).of(records, PLANNED_MS)]

    assert (read, sampled) == (right, right)


def raw(at: int, value: bytes | None, time_ms: int | None = None) -> Message:
    stamp = (1, START_S * 1000 + at if time_ms is None else time_ms)
    return Message(
        topic="orders", partition=0, offset=at, value=value, key=b"k", timestamp=stamp, headers=[("h", b"1")]
    )


def test_without_a_time_field_every_record_is_a_row_at_its_kafka_time(pool: DescriptorPool) -> None:
    paths = ("__headers", "__key", "__offset", "__value")
    rows = Rows(find_message(pool, "test.Order"), paths, "", TOLERANCE_MS)
    given = [raw(0, b"\xff"), raw(1, None), raw(2, b"", 10**15), raw(3, b"x", 0)]

    batch, quarantined = rows.rows(Records.of(given, headers=True), PARTITION, PLANNED_MS, RangeStatistics())

    assert quarantined == []
    assert batch.schema == rows.schema
    assert batch.column("__value").to_pylist() == [b"\xff", None, b"", b"x"]
    assert batch.column("__key").to_pylist() == [b"k"] * 4
    assert batch.column("__headers").to_pylist() == [[{"key": "h", "value": b"1"}]] * 4
    assert [time.timestamp() for time in batch.column(ROWTIME).to_pylist()] == [START_S] * 4


def test_with_a_time_field_a_broken_record_is_quarantined_and_the_others_are_as_they_were(
    pool: DescriptorPool,
) -> None:
    rows = Rows(find_message(pool, "test.Order"), ("__headers", "__value", "status"), "time", TOLERANCE_MS)
    sound = messages(pool, ["DONE", "NEW"])
    given = [sound[0], raw(5, b"\xff"), raw(6, None), sound[1]]

    batch, quarantined = rows.rows(Records.of(given, headers=True), PARTITION, PLANNED_MS, RangeStatistics())

    assert [(one.offset, one.reason) for one in quarantined] == [
        (6, Reason.EMPTY_VALUE), (5, Reason.MALFORMED),
    ]  # fmt: skip
    assert quarantined[1].detail.startswith("The record does not decode: ")
    assert "pruned" not in quarantined[1].detail
    assert batch.column("__value").to_pylist() == [sound[0].value(), sound[1].value()]
    assert batch.column("__headers").to_pylist() == [[], []]


def test_a_planner_that_decodes_nothing_goes_by_kafka_times() -> None:
    times = EventTimes(None, TOLERANCE_MS, 0)
    given = [raw(0, b"\xff"), raw(1, None), raw(2, b"", 10**15)]

    assert [micros for _, micros in times.of(given, PLANNED_MS)] == [START_S * 10**6] * 3


def test_an_event_time_that_is_none_is_quarantined_with_its_numbers(pool: DescriptorPool) -> None:
    kind = GetMessageClass(find_message(pool, "test.Order"))
    times = [{"seconds": 1_700_000_000_123_456}, {"seconds": -62_135_596_801}, {"seconds": 5, "nanos": -1}]
    records = [
        Message(topic="orders", partition=0, offset=at, value=kind(time=time).SerializeToString())  # type: ignore[call-arg]
        for at, time in enumerate(times)
    ]
    rows, statistics = Rows(find_message(pool, "test.Order"), (), "time", TOLERANCE_MS), RangeStatistics()

    batch, quarantined = rows.rows(Records.of(records), PARTITION, PLANNED_MS, statistics)

    assert len(batch) == 0
    assert [(one.reason, one.detail.partition("Timestamp: ")[2]) for one in quarantined] == [
        (Reason.FROM_THE_FUTURE, "seconds 1700000000123456, nanos 0. Are they milliseconds, or less?"),
        (Reason.NO_EVENT_TIME, "seconds -62135596801, nanos 0."),
        (Reason.NO_EVENT_TIME, "seconds 5, nanos -1."),
    ]
