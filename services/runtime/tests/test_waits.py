"""A partition that event time waits for is named, with since when and why, and no longer than it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from runtime.launch.waits import BEHIND, Waits, observe, warnings
from runtime.source.status import ObservedTimes, OpenTransaction, ReaderStatus, SourceState

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
DELAY = 5_000
OPEN = {"lag/1": OpenTransaction(5, 11, NOON_MS - 60_000)}


def published(
    read: Mapping[str, int | None], *, idle: tuple[str, ...] = (), transactions: bool = False
) -> SourceState:
    """Partitions, with how far (s) they are before noon; None: no record was read."""
    status = ReaderStatus(
        DELAY,
        partitions=tuple(read),
        idle_partitions=idle,
        open_transactions=OPEN if transactions else {},
    )
    times = {name: NOON_MS - before * 1000 for name, before in read.items() if before is not None}
    return SourceState({"s.0": status}, {"s.0": ObservedTimes(partitions=times)})


def told(known: Waits, after: timedelta) -> list[str]:
    return [str(warning) for warning in warnings(known, NOON + after)]


def test_a_partition_that_is_behind_is_named_with_since_when_and_by_how_much() -> None:
    known = observe(Waits(), published({"lag/0": 0, "lag/1": 18}), NOON)

    assert told(known, timedelta(seconds=12)) == [
        "EVENT_TIME_WAITS: event time has waited for lag/1 since 2026-01-01T12:00:00Z (12 s), whose newest "
        "record is of 2026-01-01T11:59:42Z, 18 s behind the others. Nothing is lost: windows end later."
    ]


def test_after_five_minutes_it_is_a_reason_with_the_time_that_it_lasts() -> None:
    known = Waits()
    for minute in range(6):
        known = observe(known, published({"lag/0": 0, "lag/1": 400}), NOON + timedelta(minutes=minute))
    (warned,) = warnings(known, NOON + BEHIND)

    assert warned.code == "PARTITION_BEHIND"
    assert warned.measure is not None
    assert (warned.measure.value, warned.measure.limit, warned.measure.unit) == (300, 300, "s")


def test_a_steady_lag_is_told_by_how_much_it_costs() -> None:
    """Windows end so much later, once: no longer for each minute that it lasts."""
    day = timedelta(days=1)
    codes = []
    for lag in (8, 60, 300):
        known = observe(Waits(), published({"lag/0": 0, "lag/1": lag}), NOON)
        codes.append([text.partition(":")[0] for text in told(known, day)])

    assert codes == [[], ["EVENT_TIME_WAITS"], ["PARTITION_BEHIND"]]


def test_who_waits_for_a_partition_without_records_waits_as_long_as_that_lasts() -> None:
    for read, open_ in (({"lag/0": 0, "lag/1": None}, False), ({"lag/0": 0, "lag/1": 3}, True)):
        known = observe(Waits(), published(read, transactions=open_), NOON)
        assert told(known, BEHIND)[0].startswith("PARTITION_BEHIND")


def test_an_open_transaction_is_told_with_both_offsets_and_kafkas_command() -> None:
    known = observe(Waits(), published({"lag/0": 0, "lag/1": 3}, transactions=True), NOON)

    assert told(known, timedelta(0)) == [
        "EVENT_TIME_WAITS: event time has waited for lag/1 since 2026-01-01T11:59:00Z (1 min), whose newest "
        "record is of 2026-01-01T11:59:57Z, 3 s behind the others. A transaction is open in it since "
        "2026-01-01T11:59:00Z: it can be read up to its last stable offset 5, and ends at 11; "
        "`kafka-transactions.sh --bootstrap-server HOST:PORT describe-producers --topic lag --partition 1` "
        "shows who holds it, `kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic lag "
        "--partition 1 --start-offset 5` ends it. Nothing is lost: windows end later."
    ]


def test_a_partition_without_records_is_told_before_one_that_is_behind() -> None:
    known = observe(Waits(), published({"lag/0": 0, "lag/1": 18, "lag/2": None}), NOON)
    (text,) = told(known, timedelta(seconds=12))

    assert "lag/2 and 1 more since" in text
    assert "of which this launch has read no record" in text


def test_nothing_is_told_of_what_is_in_time_idle_alone_or_only_for_a_moment() -> None:
    late = timedelta(hours=1)
    together = observe(Waits(), published({"lag/0": 0, "lag/1": 5}), NOON)
    idle = observe(Waits(), published({"lag/0": 0, "lag/1": 50}, idle=("lag/1",)), NOON)
    alone = observe(Waits(), published({"lag/0": 50}), NOON)
    nothing = observe(Waits(), published({"lag/0": None, "lag/1": None}), NOON)
    moment = observe(Waits(), published({"lag/0": 0, "lag/1": 50}), NOON)

    assert [told(known, late) for known in (together, idle, alone, nothing)] == [[]] * 4
    assert told(moment, timedelta(seconds=9)) == []


def test_who_has_caught_up_is_told_of_no_longer() -> None:
    known = observe(Waits(), published({"lag/0": 0, "lag/1": 50}), NOON)
    caught_up = observe(known, published({"lag/0": 0, "lag/1": 1}), NOON + timedelta(minutes=9))

    assert told(caught_up, timedelta(minutes=10)) == []
