"""Event time is the least of a stream's partitions: what is in order in its partition is never late."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.source.offsets import Partition
from runtime.source.planner.silence import LONGEST_GRACE, PartitionSilence
from runtime.source.status import ObservedTimes, ReaderStatus, SourceState
from runtime.source.watermark import NEVER, PartitionTime, event_time

DELAY = 5_000
TIMEOUT = 10_000
HERE, THERE = Partition("a", 0), Partition("a", 1)
times = st.integers(0, 10**6)


def status(*partitions: str, idle: tuple[str, ...] = (), ended: bool = False) -> ReaderStatus:
    return ReaderStatus(
        DELAY, partitions=partitions, idle_partitions=idle, idle_timeout=TIMEOUT, has_ended=ended
    )


@st.composite
def streams(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """Partitions, each with the batch and the event time of its records: in order but for the delay."""
    partitions = []
    for _ in range(draw(st.integers(1, 6))):
        time, batch, records = draw(times), draw(st.integers(0, 5)), []
        for step, back, pause in draw(
            st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, DELAY), st.integers(0, 2)), max_size=12)
        ):
            time, batch = time + step, batch + pause
            records.append((batch, max(0, time - back)))
        partitions.append(records)
    return partitions


@given(partitions=streams(), readers=st.integers(1, 3))
def test_what_is_out_of_order_by_the_delay_at_most_is_never_late(
    partitions: list[list[tuple[int, int]]], readers: int
) -> None:
    names = [f"t/{number}" for number in range(len(partitions))]
    keys = [f"s.{number % readers}" for number in range(len(partitions))]
    statuses = {key: status(*(n for n, k in zip(names, keys, strict=True) if k == key)) for key in set(keys)}
    known = SourceState(statuses)
    for batch in range(30):
        before, read = known.watermark(), {}
        for name, key, records in zip(names, keys, partitions, strict=True):
            new = [time for at, time in records if at == batch]
            assert all(time >= before for time in new)
            if new:
                read[key] = read.get(key, ObservedTimes()).then(ObservedTimes(partitions={name: max(new)}))
        known = known.after(read)

    newest = [max((time for _, time in records), default=None) for records in partitions]
    reached = None if None in newest else min(time for time in newest if time is not None)
    assert known.watermark() == (NEVER if reached is None else reached - DELAY)


@given(st.lists(st.builds(PartitionTime, st.none() | times, st.booleans())))
def test_event_time_waits_for_whoever_is_not_idle(partitions: list[PartitionTime]) -> None:
    waited_for = [partition.newest for partition in partitions if not partition.idle]
    known = [time for time in waited_for if time is not None]

    assert event_time(partitions) == (min(known) if known and len(known) == len(waited_for) else None)


def test_event_time_never_goes_back() -> None:
    awake = SourceState({"s.0": status("t/0", "t/1", idle=("t/1",))})
    moved = awake.after({"s.0": ObservedTimes(partitions={"t/0": 50_000})})
    back = SourceState({"s.0": status("t/0", "t/1")}, moved.observed, moved.moved)
    behind = back.after({"s.0": ObservedTimes(partitions={"t/1": 7_000})})

    assert (moved.watermark(), behind.watermark(), behind.event_times()) == (45_000, 45_000, {"s.0": 7_000})


def test_a_reader_whose_partitions_are_all_idle_follows_the_others_of_its_stream() -> None:
    known = SourceState({"s.0": status("t/0"), "s.1": status("u/0", idle=("u/0",))})

    assert known.after({"s.0": ObservedTimes(partitions={"t/0": 50_000})}).watermark() == 45_000


def test_a_reader_that_has_not_looked_yet_is_waited_for() -> None:
    known = SourceState({"s.0": status("t/0"), "s.1": status()})

    assert known.after({"s.0": ObservedTimes(partitions={"t/0": 50_000})}).watermark() == NEVER


def test_streams_wait_for_each_other() -> None:
    known = SourceState({"s.0": status("t/0"), "r.0": status("u/0")})
    one = known.after({"s.0": ObservedTimes(partitions={"t/0": 50_000})})
    both = one.after({"r.0": ObservedTimes(partitions={"u/0": 20_000})})

    assert (one.watermark(), both.watermark()) == (NEVER, 15_000)


def test_an_idle_advance_moves_event_time_without_records() -> None:
    known = SourceState({"s.0": status("t/0", idle=("t/0",))})

    assert known.after({"s.0": ObservedTimes(advance=30_000)}).watermark() == 25_000


def test_at_the_end_of_a_range_nobody_waits_for_what_is_long_silent() -> None:
    read = ObservedTimes(partitions={"t/0": 50_000, "t/1": 48_000, "t/2": 39_999})
    names = "t/0", "t/1", "t/2", "t/3"
    within = SourceState({"s.0": status(*names, idle=("t/0",))}).after({"s.0": read})
    ended = SourceState({"s.0": status(*names, idle=names, ended=True)}).after({"s.0": read})

    assert (within.watermark(), ended.watermark()) == (NEVER, 43_000)


# ---- PartitionSilence --------------------------------------------------------------------------------------


def watched(silence: PartitionSilence, ends: dict[Partition, int], begin: int, end: int) -> None:
    """Looked at each second."""
    for now in range(begin, end + 1, 1_000):
        silence.look(ends, now)


def test_a_partition_is_silent_when_nothing_new_has_come_for_the_timeout() -> None:
    silence = PartitionSilence(TIMEOUT)
    watched(silence, {HERE: 1, THERE: 1}, 0, 3_000)
    watched(silence, {HERE: 1, THERE: 2}, 4_000, 10_000)

    assert [silence.is_silent(p, 9_999) for p in (HERE, THERE)] == [False, False]
    assert [silence.is_silent(p, 10_000) for p in (HERE, THERE)] == [True, False]
    assert [silence.is_silent(p, 14_000) for p in (HERE, THERE)] == [True, True]


def test_without_a_timeout_nothing_is_silent() -> None:
    silence = PartitionSilence(0)
    watched(silence, {HERE: 1}, 0, 100_000)

    assert not silence.is_silent(HERE, 100_000)


@given(outage=st.integers(1_000, 600_000), before=st.integers(0, 50_000))
def test_after_an_outage_everybody_has_as_long_as_it_took_to_come_back(outage: int, before: int) -> None:
    silence = PartitionSilence(TIMEOUT)
    watched(silence, {HERE: 1, THERE: 1}, 0, before)
    last = before // 1_000 * 1_000
    silence.lose()
    recovered = last + outage
    silence.look({HERE: 1, THERE: 1}, recovered)
    grace = max(TIMEOUT, min(outage, LONGEST_GRACE))
    watched(silence, {HERE: 1, THERE: 1}, recovered, recovered + grace - 1)

    assert not silence.is_silent(HERE, recovered + grace - 1)
    assert silence.is_silent(HERE, recovered + grace)


def test_who_has_come_back_after_an_outage_is_as_patient_as_ever() -> None:
    silence = PartitionSilence(TIMEOUT)
    watched(silence, {HERE: 1, THERE: 1}, 0, 1_000)
    silence.lose()
    watched(silence, {HERE: 1, THERE: 1}, 61_000, 62_000)
    watched(silence, {HERE: 2, THERE: 1}, 63_000, 73_000)

    assert [silence.is_silent(p, 73_000) for p in (HERE, THERE)] == [True, False]


def test_a_time_in_which_nobody_looked_counts_for_little() -> None:
    silence = PartitionSilence(TIMEOUT)
    watched(silence, {HERE: 1}, 0, 3_000)
    silence.look({HERE: 1}, 60_000)

    assert (silence.is_silent(HERE, 60_000), silence.is_silent(HERE, 62_000)) == (False, True)


def fed(
    silence: PartitionSilence, begin: int, end: int, *, usable: Callable[[int], int], lag: int = 1
) -> None:
    """Looked at each second, with a record a second, of which all but the last `lag` are read."""
    for now in range(begin, end + 1, 1_000):
        count = now // 1_000
        silence.look({HERE: count}, now)
        silence.read({HERE: max(0, count - lag)}, {HERE: usable(count)}, now)


@pytest.mark.parametrize("lag", [0, 1, 5])
def test_a_partition_is_barren_when_no_record_for_the_timeout_can_be_used(lag: int) -> None:
    silence = PartitionSilence(TIMEOUT)
    fed(silence, 0, 20_000, usable=lambda count: count, lag=lag)
    assert not silence.is_barren(HERE)
    fed(silence, 21_000, 30_000, usable=lambda count: 20, lag=lag)
    assert not silence.is_barren(HERE)
    fed(silence, 31_000, 33_000 + 3_000 * lag, usable=lambda count: 20, lag=lag)
    assert (silence.is_barren(HERE), silence.is_silent(HERE, 33_000)) == (True, False)
    last = 34_000 + 3_000 * lag
    fed(silence, last, last, usable=lambda count: 21, lag=lag)
    assert not silence.is_barren(HERE)


def test_what_is_not_read_yet_may_be_usable() -> None:
    """Somebody reads one batch of what cannot be used, and nothing for a minute."""
    silence = PartitionSilence(TIMEOUT)
    for now in range(0, 60_000, 1_000):
        silence.look({HERE: now}, now)
        silence.read({HERE: 0 if now < 5_000 else 5_000}, {}, now)

    assert not silence.is_barren(HERE)


def test_a_partition_behind_an_open_transaction_is_not_barren_once_that_ends() -> None:
    silence = PartitionSilence(TIMEOUT)
    for now in range(0, 60_000, 1_000):
        silence.look({HERE: 5}, now)
        silence.read({HERE: 5}, {HERE: 1}, now)
    silence.look({HERE: 12}, 60_000)
    silence.read({HERE: 5}, {HERE: 1}, 60_000)

    assert not silence.is_barren(HERE)


def test_after_an_outage_a_barren_partition_has_as_long_to_come_back_as_a_silent_one() -> None:
    silence = PartitionSilence(TIMEOUT)
    fed(silence, 0, 30_000, usable=lambda count: 0)
    assert silence.is_barren(HERE)
    silence.lose()
    fed(silence, 90_000, 140_000, usable=lambda count: 0)
    assert not silence.is_barren(HERE)
    fed(silence, 141_000, 160_000, usable=lambda count: 0)

    assert silence.is_barren(HERE)


def test_without_a_timeout_nothing_is_barren() -> None:
    silence = PartitionSilence(0)
    fed(silence, 0, 100_000, usable=lambda count: 0)

    assert not silence.is_barren(HERE)


def test_two_streams_of_one_topic_have_event_times_of_their_own() -> None:
    """Each may have its event time in another field."""
    known = SourceState({"s.0": status("t/0"), "r.0": status("t/0")})
    read = known.after(
        {"s.0": ObservedTimes(partitions={"t/0": 7}), "r.0": ObservedTimes(partitions={"t/0": 90})}
    )

    assert read.read_until() == {"s": {"t/0": 7_000}, "r": {"t/0": 90_000}}
