"""Which messages records may be: by what they know of the records' bytes."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf import timestamp_pb2
from google.protobuf.message import Message

from runtime.decode.fit import best, fit, unknown

STREAM = spec_pb2.Stream(
    name="bookings", cluster="local", topics=["a", "b"], message="m.M"
).SerializeToString()
KINDS: list[type[Message]] = [
    spec_pb2.Stream,
    spec_pb2.Secret,
    spec_pb2.Cluster,
    events_pb2.SchedulerStarted,
    gateway_pb2.SampledRecord,
]


def test_the_message_itself_fits_wholly_and_comes_first() -> None:
    first, *others = best([STREAM] * 10, KINDS)

    assert (first.name, first.score, first.problem) == ("daggers.v1.Stream", 1.0, "")
    assert all(each.score <= 1 for each in others)


def test_of_two_messages_that_know_all_the_one_that_is_filled_fits_better() -> None:
    value = events_pb2.SchedulerStarted(host="here").SerializeToString()
    whole: list[type[Message]] = [spec_pb2.Stream, events_pb2.SchedulerStarted]

    ranked = [each.coverage for each in best([value], whole)]

    assert ranked == sorted(ranked, reverse=True)


def test_what_the_message_does_not_know_lowers_its_score_and_is_said() -> None:
    known, unknown = spec_pb2.Cluster(name="local"), spec_pb2.Stream(time_field="x" * 100)
    found = fit([known.SerializeToString() + unknown.SerializeToString()], spec_pb2.Cluster)

    assert 0 < found.score < 0.2
    assert found.problem.endswith("% of their bytes are no fields of it")


def test_what_does_not_decode_is_counted() -> None:
    found = fit([STREAM, b"\xff\xff", STREAM, b"\xff"], spec_pb2.Stream)

    assert (found.score, found.problem) == (0.5, "2 of 4 records do not decode")


@pytest.mark.parametrize(
    "time", [{"seconds": -1}, {"seconds": 2**40}, {"seconds": 1, "nanos": -1}, {"seconds": 1, "nanos": 2**30}]
)
def test_a_message_whose_times_are_none_is_another(time: dict[str, int]) -> None:
    record: Any = gateway_pb2.SampledRecord(topic="t", time=timestamp_pb2.Timestamp(**time))

    assert fit([record.SerializeToString()], gateway_pb2.SampledRecord).decoded == 0


def test_of_no_records_and_of_empty_ones_nothing_is_known() -> None:
    assert fit([], spec_pb2.Stream).score == 0
    assert best([b"", b""], KINDS) == []


def test_of_a_value_it_is_told_how_much_of_it_is_not_known() -> None:
    cluster, more = spec_pb2.Cluster(name="local"), spec_pb2.Stream(time_field="x" * 19)
    half = unknown(cluster.SerializeToString() + more.SerializeToString(), spec_pb2.Cluster)

    assert 0.6 < half < 0.9
    assert [unknown(value, spec_pb2.Stream) for value in (STREAM, b"", b"\xff\xff")] == [0, 0, 0]
