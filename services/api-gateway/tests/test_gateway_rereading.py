"""What a plan says of records that are read again: which windows are lost when some of them are gone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import gateway_pb2

from api_gateway.hosts import reread_plan
from daggersql import Window

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TUMBLE = Window("TUMBLE", MINUTE, MINUTE)
HOP = Window("HOP", MINUTE, timedelta(seconds=20))
SESSION = Window("SESSION", MINUTE, MINUTE)
CLOSED = NOON + timedelta(seconds=30)


@dataclass(frozen=True)
class Query:
    """What is asked of a plan."""

    window: Window | None
    lookback: timedelta = timedelta()


def reads(**fields: Any) -> gateway_pb2.PlannedReads:
    return gateway_pb2.PlannedReads(**{"closed": CLOSED, "since": CLOSED - MINUTE, **fields})


def told(query: Any, found: gateway_pb2.PlannedReads, **answer: Any) -> gateway_pb2.PlanDaggerResponse:
    made = gateway_pb2.PlanDaggerResponse(recomputed_since=NOON, **answer)
    reread_plan.set_reads(made, query, found)
    return made


def seconds(of: gateway_pb2.PlannedWindows) -> tuple[float, float, int]:
    begin, end = ((each.ToDatetime(UTC) - NOON).total_seconds() for each in (of.begin, of.end))
    return begin, end, of.count


@pytest.mark.parametrize(
    ("window", "whole_from", "lost"),
    [
        (TUMBLE, 0, None),
        (TUMBLE, 0.000001, (0, 60, 1)),
        (TUMBLE, 60, (0, 60, 1)),
        (TUMBLE, 61, (0, 120, 2)),
        (HOP, -20, None),
        (HOP, -19, (-20, 40, 1)),
        (HOP, 21, (-20, 80, 3)),
    ],
)
def test_a_window_that_was_open_and_lacks_a_record_is_lost(
    window: Window, whole_from: float, lost: tuple[float, float, int] | None
) -> None:
    found = reads(whole_from=NOON + timedelta(seconds=whole_from))
    answer = told(Query(window), found)

    assert (seconds(answer.lost_windows) if answer.HasField("lost_windows") else None) == lost
    assert len(answer.losses) == (0 if lost is None else 1)


def test_a_row_may_need_records_of_before_its_window() -> None:
    found = reads(whole_from=NOON + timedelta(seconds=50))

    assert not told(Query(TUMBLE), reads(whole_from=NOON)).losses
    assert seconds(told(Query(TUMBLE, lookback=MINUTE), found).lost_windows) == (0, 120, 2)


def test_where_windows_have_no_size_the_time_is_said_from_which_rows_are_whole() -> None:
    lacks = told(Query(SESSION), reads(whole_from=NOON))
    whole = told(Query(None), reads(whole_from=CLOSED - MINUTE))

    assert (lacks.HasField("lost_windows"), len(lacks.losses)) == (False, 1)
    assert "2026-07-01T12:00:00Z" in lacks.losses[0]
    assert not whole.losses


def test_before_a_window_was_closed_what_kafka_deleted_is_lost() -> None:
    begun = gateway_pb2.PlannedReads(records=5, missing=1)
    whole = told(Query(TUMBLE), gateway_pb2.PlannedReads(records=5))

    assert len(told(Query(TUMBLE), begun).losses) == 1
    assert (list(whole.losses), whole.HasField("recomputed_since")) == ([], False)


def test_the_time_of_reading_goes_by_what_a_record_has_cost() -> None:
    cost = gateway_pb2.DaggerCost(records=200_000, cpu_seconds=10)
    known = told(Query(TUMBLE), reads(records=1_000_000), cost=cost)
    few = told(Query(TUMBLE), reads(records=1_000_000), cost=gateway_pb2.DaggerCost(records=9, cpu_seconds=9))

    assert known.reading_time.ToTimedelta() == timedelta(seconds=50)
    assert not few.HasField("reading_time")
