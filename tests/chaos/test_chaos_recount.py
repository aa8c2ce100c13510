"""The recount of a chaos run, by hand, and that it tells a row that is missing, doubled or different."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from tests.chaos.daggers import ANSWERED, ASKED, SUBJECTS, mismatches, once, set_aside
from tests.chaos.feeder import City, Event, Fed
from tests.chaos.gaps import Gap, excused, excused_aside, gaps_in
from tests.integration.bookings import message_class

from daggerclient.daggerfile.parse import parse
from daggersql import Table, check
from runtime.launch import expired
from runtime.source.offsets import LostRecords

FED = Fed(
    asked=[
        Event(1_500, "a", 1, "COMPLETED"),
        Event(9_999, "b", 1, "COMPLETED"),
        Event(10_000, "c", 1, "COMPLETED"),
        Event(12_000, "d", 2, "CANCELLED"),
        Event(14_000, "e", 2, "COMPLETED"),
    ],
    answered=[
        Event(3_000, "a", 3, "COMPLETED"),
        Event(19_999, "b", 4, "COMPLETED"),
        Event(20_001, "c", 4, "COMPLETED"),
        Event(21_000, "d", 1, "COMPLETED"),
    ],
)


def at(clock: str) -> str:
    return f"2026-01-01T12:00:{clock}+00:00"


EXPECTED = {
    "chaos-tumble": [(at("10.000"), "1", 2), (at("20.000"), "1", 1), (at("20.000"), "2", 1)],
    "chaos-hop": [
        (at("05.000"), "COMPLETED", 1),
        (at("10.000"), "COMPLETED", 2),
        (at("15.000"), "COMPLETED", 4),
        (at("15.000"), "CANCELLED", 1),
        (at("20.000"), "COMPLETED", 4),
        (at("20.000"), "CANCELLED", 1),
        (at("25.000"), "COMPLETED", 3),
        (at("25.000"), "CANCELLED", 1),
        (at("30.000"), "COMPLETED", 2),
        (at("30.000"), "CANCELLED", 1),
    ],
    "chaos-forward": [
        ("a", 1, at("01.500")),
        ("b", 1, at("09.999")),
        ("c", 1, at("10.000")),
        ("e", 2, at("14.000")),
    ],
    "chaos-join": [
        ("a", 3, at("01.500")),
        ("b", 4, at("09.999")),
        ("c", None, at("10.000")),
        ("e", None, at("14.000")),
    ],
    "chaos-union": [
        (at("10.000"), "asked", 2),
        (at("20.000"), "asked", 2),
        (at("10.000"), "answered", 1),
        (at("20.000"), "answered", 1),
        (at("30.000"), "answered", 2),
    ],
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_rows_are_those_that_one_counts_by_hand(name: str) -> None:
    assert SUBJECTS[name].recount(FED) == Counter(EXPECTED[name])


def test_a_window_of_five_has_no_row_but_stands_in_the_quarantine() -> None:
    hop = SUBJECTS["chaos-hop"]
    fed = Fed(asked=[Event(at_ms, "x", 1, "COMPLETED") for at_ms in (0, 1, 2, 3, 4)], ahead=[("asked", 1, 7)])
    ends = [at(second) for second in ("05.000", "10.000", "15.000", "20.000")]

    assert hop.recount(fed) == Counter()
    assert set_aside(hop, fed) == Counter(
        [("FROM_THE_FUTURE", "asked", 1, 7), *(("NO_FIELDS", end, "COMPLETED", None) for end in ends)]
    )


def test_an_answer_on_the_bound_is_in_time_and_one_behind_it_is_not() -> None:
    asked = [Event(0, "x", 1, "COMPLETED"), Event(0, "y", 1, "COMPLETED")]
    answered = [Event(10_000, "x", 2, "COMPLETED"), Event(10_001, "y", 2, "COMPLETED")]

    rows = SUBJECTS["chaos-join"].recount(Fed(asked, answered))

    assert sorted((order, answer) for order, answer, _ in rows) == [("x", 2), ("y", None)]


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_closing_events_are_in_no_row(name: str) -> None:
    closing = City(1).closing()

    assert SUBJECTS[name].recount(Fed([closing], [closing])) == Counter()


@pytest.mark.parametrize("name", SUBJECTS)
def test_each_dagger_is_one_that_daggers_takes(name: str) -> None:
    subject = SUBJECTS[name]
    file = yaml.safe_dump(subject.spec(name, {ASKED: "asked-1", ANSWERED: "answered-1"}))
    booking = message_class().DESCRIPTOR

    (dagger,) = parse(file, "chaos.yaml")
    checked = check(
        dagger.spec.sql, [Table(stream, booking, "event_timestamp") for stream in subject.streams]
    )

    assert checked.plan is not None, checked.findings
    assert checked.findings == ()
    assert set(subject.columns) == {column.name for column in checked.plan.columns}


@pytest.mark.parametrize("name", SUBJECTS)
def test_rows_are_recognised_as_the_sinks_write_them(name: str) -> None:
    subject = SUBJECTS[name]
    (row, *_) = sorted(subject.recount(FED), key=str)
    written = dict(zip(subject.columns, row, strict=True))
    written["window_timestamp"] = written["window_timestamp"].replace("+00:00", "000Z")

    assert subject.row(written) == row


def test_a_record_that_was_written_again_counts_once_and_one_that_changed_is_a_mismatch() -> None:
    expected = Counter([("a", 1), ("b", 2)])

    again = once([("id-a", ("a", 1)), ("id-b", ("b", 2)), ("id-b", ("b", 2))])
    changed = once([("id-a", ("a", 1)), ("id-b", ("b", 2)), ("id-b", ("b", 3))])
    doubled = once([("id-a", ("a", 1)), ("id-b", ("b", 2)), ("id-c", ("b", 2))])

    assert mismatches(expected, again) == []
    assert mismatches(expected, changed) == ["unexpected 1 x ('b', 3)"]
    assert mismatches(expected, doubled) == ["unexpected 1 x ('b', 2)"]


def test_a_lost_row_is_a_mismatch() -> None:
    assert mismatches(Counter([("a", 1), ("b", 2)]), Counter([("a", 1)])) == ["missing 1 x ('b', 2)"]


def test_the_feeder_goes_forward_in_event_time_and_comes_from_the_seed() -> None:
    city, same = City(3), City(3)
    steps = [city.step() for _ in range(200)]

    asked = [event for step in steps for event in step.asked]
    answered = [event for step in steps for event in step.answered]
    for events in (asked, answered):
        assert [event.at_ms for event in events] == sorted(event.at_ms for event in events)
        assert events[-1].at_ms < city.closing().at_ms
    assert steps == [same.step() for _ in range(200)]
    assert len(asked) > len(answered) > 200


def test_event_time_goes_on_with_the_clock_after_the_broker_was_away_and_never_back() -> None:
    city = City(3)
    steps = [city.step(), city.step(100_250), city.step(), city.step(40_000)]

    for number, step in zip((0, 200, 201, 202), steps, strict=True):
        assert {event.at_ms // 500 for event in step.asked} == {number}
    answered = [event.at_ms for step in steps for event in step.answered]
    assert answered == sorted(answered)


TARGET = ("asked", 1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def said(begin_s: float, end_s: float, *, windowed: bool) -> str:
    """What `daggers list` has of a gap."""
    micros = [round((NOON.timestamp() + second) * 1_000_000) for second in (begin_s, end_s)]
    lost = LostRecords("asked/1", 2, *micros, round(NOON.timestamp() * 1000))
    warning = expired.warning((lost,), NOON + timedelta(minutes=1), windowed=windowed, early=False)
    return json.dumps({"warnings": [str(warning)]})


def test_what_is_told_of_deleted_records_is_read_from_the_sentence() -> None:
    counts = frozenset({("asked", 1, 2)})

    assert gaps_in(said(10.2, 12.5, windowed=True)) == {Gap(counts, 10_000, 13_000)}
    assert gaps_in(said(10.2, 12.5, windowed=False)) == {Gap(counts)}
    assert gaps_in(json.dumps({"warnings": ["LATE_ROWS: 3 rows"]})) == set()


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("chaos-tumble", {(at("20.000"), "1", 1), (at("20.000"), "2", 1)}),
        ("chaos-forward", {("c", 1, at("10.000"))}),
        ("chaos-join", {("a", 3, at("01.500")), ("b", 4, at("09.999")), ("c", None, at("10.000"))}),
    ],
)
def test_rows_that_need_what_was_deleted_are_excused_where_that_was_told(
    name: str, left_out: set[tuple[object, ...]]
) -> None:
    subject, (_, _, gone, *_) = SUBJECTS[name], FED.asked
    fed = Fed(FED.asked, FED.answered, places={gone: (TARGET, 5)}, deleted={TARGET: 6})
    every = subject.recount(fed)
    gaps = gaps_in(said(10, 10.5, windowed=name != "chaos-forward"))

    assert set(excused(subject, fed, every, gaps)) == left_out
    assert excused(subject, fed, every, []) == Counter()


def test_of_the_quarantine_deleted_records_and_windows_that_are_left_out_are_excused() -> None:
    fed = Fed(ahead=[(*TARGET, 7), (*TARGET, 9)], deleted={TARGET: 8})
    refused = [("NO_FIELDS", at(second), "COMPLETED", None) for second in ("15.000", "55.000")]
    missing = Counter([("FROM_THE_FUTURE", *TARGET, 7), ("FROM_THE_FUTURE", *TARGET, 9), *refused])

    found = excused_aside(SUBJECTS["chaos-hop"], fed, missing, gaps_in(said(10, 12, windowed=True)))

    assert set(found) == {("FROM_THE_FUTURE", *TARGET, 7), refused[0]}
