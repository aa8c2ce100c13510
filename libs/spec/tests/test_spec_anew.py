"""What a dagger that begins anew misses, and what it writes again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from daggers.v1 import spec_pb2

from daggerspec import anew


def spec(start: str, *kinds: str) -> spec_pb2.DaggerSpec:
    made = spec_pb2.DaggerSpec()
    input_ = made.streams.add(stream="bookings")
    if start == "at":
        input_.start.at.FromDatetime(datetime(2024, 2, 29, 12, tzinfo=UTC))
    else:
        setattr(input_.start, start, True)
    for kind in kinds:
        getattr(made.sinks.add(), kind).SetInParent()
    return made


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            spec("latest", "influx"),
            "what came to bookings since it was last read is in no row, nor are windows that were open",
        ),
        (
            spec("earliest", "influx"),
            "bookings is read again from the oldest record that Kafka holds; rows that were written before"
            " are written over",
        ),
        (
            spec("at", "parquet"),
            "bookings is read again from 2024-02-29T12:00:00Z on, as far as Kafka holds that; parquet may get"
            " rows again that were written before",
        ),
    ],
)
def test_it_says_what_is_missed_and_what_is_written_again(asked: spec_pb2.DaggerSpec, told: str) -> None:
    assert anew.consequences(asked) == told


@pytest.mark.parametrize(
    ("kinds", "may"), [((), False), (("influx",), True), (("influx", "parquet"), False), (("log",), False)]
)
def test_it_may_begin_anew_by_itself_where_every_sink_writes_over_rows(
    kinds: tuple[str, ...], may: bool
) -> None:
    assert anew.overwrites(spec("earliest", *kinds)) is may
