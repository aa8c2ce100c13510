"""How much one principal may ask, at any speed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from access import Principal
from access.limits import CallLimits, Meter

ADA, BOB = Principal("user:ada"), Principal("account:bob")
ROOT = Principal("root", administrator=True)
WRITE = "/daggers.v1.DaggerService/ApplyDagger"
READ = "/daggers.v1.DaggerService/ListDaggers"


def admitted(meter: Meter, who: Principal, method: str, count: int, seconds: float) -> int:
    """How many of so many calls, evenly over so many seconds, are let through."""
    return sum(meter.asks(who, method, number * seconds / count) is None for number in range(count))


def test_of_five_thousand_writes_in_nine_seconds_the_log_gets_a_few_hundred_and_others_theirs() -> None:
    meter = Meter(CallLimits())
    flood = admitted(meter, BOB, WRITE, 5_000, 9)

    assert 300 <= flood <= 300 + 9 * 10 + 1
    assert meter.asks(ADA, WRITE, 9) is None


def test_who_waits_as_long_as_it_is_told_is_let_through_then_and_not_before() -> None:
    meter = Meter(CallLimits(writes_per_second=0.5))
    admitted(meter, ADA, WRITE, 15, 0.001)
    exceeded = meter.asks(ADA, WRITE, 1)
    assert exceeded is not None

    assert (exceeded.limit, exceeded.most) == ("writes_per_second", 0.5)
    assert meter.asks(ADA, WRITE, 1 + exceeded.wait_s - 0.01) is not None
    assert meter.asks(ADA, WRITE, 1 + exceeded.wait_s + 0.01) is None


def test_a_refused_write_takes_nothing_from_reads() -> None:
    meter = Meter(CallLimits(requests_per_second=1, writes_per_second=0.01))
    admitted(meter, ADA, WRITE, 100, 0.001)

    assert admitted(meter, ADA, READ, 100, 0.001) == 9


def test_streams_are_as_many_as_may_be_until_one_is_closed() -> None:
    meter = Meter(CallLimits(streams=2))
    opened = [meter.opens(ADA, has_role=True) is None for _ in range(3)]
    meter.closes(ADA)

    assert opened == [True, True, False]
    assert meter.opens(ADA, has_role=True) is None
    assert meter.opens(BOB, has_role=True) is None


def test_names_of_the_token_file_are_not_counted() -> None:
    meter = Meter(CallLimits(requests_per_second=1, writes_per_second=1, streams=1))

    assert admitted(meter, ROOT, WRITE, 1_000, 0.001) == 1_000
    assert [meter.opens(ROOT, has_role=False) for _ in range(3)] == [None] * 3


def test_many_principals_that_ask_seldom_are_forgotten() -> None:
    meter = Meter(CallLimits())
    for number in range(5_000):
        meter.asks(Principal(f"user:{number}"), READ, number)

    assert meter.remembered <= 1_001


@given(
    rate=st.floats(0.1, 50),
    steps=st.lists(st.floats(0, 5), min_size=1, max_size=200),
)
def test_no_more_is_ever_let_through_than_the_burst_and_the_rate_give(
    rate: float, steps: list[float]
) -> None:
    meter, now, let = Meter(CallLimits(requests_per_second=rate)), 0.0, 0
    for step in steps:
        now += step
        let += meter.asks(ADA, READ, now) is None

    assert let <= max(1, rate * 10) + rate * now + 1e-6 * len(steps) + 1


@pytest.mark.parametrize("names", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_million_principals_are_no_million_buckets(names: int) -> None:
    """A thousand a second, each of which asks once and opens a stream."""
    meter, most = Meter(CallLimits()), 0
    for number in range(names):
        who = Principal(f"user:{number}")
        meter.asks(who, WRITE, number / 1_000)
        meter.opens(who, has_role=True)
        meter.closes(who)
        most = max(most, meter.remembered)

    assert most <= 1_003
