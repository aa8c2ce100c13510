"""The demo's city and recount."""

import random
from datetime import UTC, datetime

import pytest
from google.protobuf.message import DecodeError

from cli.files.proto_files import load
from daggerclient.daggerfile.parse import parse
from daggerspec.row import Row
from devstack.demo.city import CONCERT_BOOKINGS, OUT_OF_ORDER_S, TICK_S, Booking, City, Ping, bookings_per_s
from devstack.demo.encoding import BOOKING, Encoder, example_files
from devstack.demo.recount import bookings_table, compare, rows_table, s2_id, supply_table, window_end
from devstack.demo.rowrule import NAME as RULE
from devstack.demo.rowrule import RowRule
from devstack.demo.run import find_examples, with_short_windows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def events(seed: int, ticks: int) -> list[Booking | Ping]:
    city = City(seed)
    return [event for number in range(ticks) for event in city.tick(number)]


def test_a_city_is_the_same_for_one_seed_and_another_for_another() -> None:
    assert events(1, 50) == events(1, 50)
    assert events(1, 50) != events(2, 50)


def test_events_are_never_further_out_of_order_than_promised() -> None:
    newest_so_far, worst = 0.0, 0.0
    for event in events(1, 600):
        newest_so_far = max(newest_so_far, event.second)
        worst = max(worst, newest_so_far - event.second)

    assert 0 < worst <= OUT_OF_ORDER_S + TICK_S


def test_rush_hours_are_busier_than_the_night() -> None:
    assert bookings_per_s(60 * 8.5 / 24) > 3 * bookings_per_s(60 * 2 / 24)


def test_a_concert_ends_in_one_window_and_one_cell() -> None:
    bookings = [event for event in events(1, 600) if isinstance(event, Booking)]

    rows = [count for count in bookings_table(bookings, NOON).values() if count > CONCERT_BOOKINGS // 2]
    assert [count >= CONCERT_BOOKINGS for count in rows] == [True]


def test_the_rule_of_the_second_act_is_over_once_it_has_fired_and_resolved() -> None:
    rule, key = RowRule("bookings"), f"[daggers/bookings/rule/{RULE}/1f]"

    rule.step([f"pagerduty  resolved   {key}"])
    rule.step(["pagerduty  triggered  CRITICAL other: failed  [daggers/other/failed]"])
    rule.step([f"pagerduty  triggered  ERROR bookings: crowd  {key}"])
    before = rule.over
    rule.step([f"pagerduty  resolved   {key}"])

    assert (before, rule.over) == (False, True)


def test_a_broken_record_does_not_parse() -> None:
    encoder = Encoder.of(load(example_files(find_examples()), ()), NOON)
    whole = encoder.booking(City(1).booking(1.0))

    broken = encoder.truncate(whole, BOOKING, random.Random(1))

    with pytest.raises(DecodeError):
        encoder.classes[BOOKING].FromString(broken)


def test_a_window_holds_its_beginning_and_not_its_end() -> None:
    ends = [window_end(NOON, second) for second in (0, 9.999, 10)]

    assert ends == ["2026-01-01T12:00:10Z", "2026-01-01T12:00:10Z", "2026-01-01T12:00:20Z"]


def test_the_recount_counts_completed_bookings_and_distinct_drivers() -> None:
    booking = Booking(1, "o", "COMPLETED", 7, "bike", 0.0, 0.0)
    cancelled = Booking(1, "o", "CANCELLED", 7, "bike", 0.0, 0.0)
    ping = Ping(1, "d", "AVAILABLE", 0.0, 0.0, "bike", 0, 0)
    end, cell = "2026-01-01T12:00:10Z", s2_id(0.0, 0.0)

    assert bookings_table([booking, booking, cancelled], NOON) == {(end, "7", cell, "bike"): 2}
    assert supply_table([ping, ping], NOON) == {(end, cell, "AVAILABLE"): 1}


@pytest.mark.parametrize(
    ("latitude", "longitude", "cell"),
    [(0.0, 0.0, "1152921521786716160"), (40.7128, -74.0060, "-8520148434366234624")],
)
def test_a_cell_id_is_a_signed_decimal(latitude: float, longitude: float, cell: str) -> None:
    assert s2_id(latitude, longitude) == cell


def test_every_row_that_is_missing_extra_or_different_is_a_mismatch() -> None:
    expected = {("w1", "a"): 1, ("w1", "b"): 2, ("w2", "a"): 3}
    found = {("w1", "a"): 1, ("w1", "b"): 9, ("w2", "c"): 3}

    compared = compare(expected, found)

    assert (compared.windows, compared.rows, len(compared.mismatches)) == (2, 3, 3)


def test_rows_become_the_table_of_the_recount() -> None:
    row = Row(NOON, {"tag_city_id": "7"}, {"n": 2})

    assert rows_table([row], ("tag_city_id",), "n") == {("2026-01-01T12:00:00Z", "7"): 2}


def test_the_demo_shortens_every_window_of_the_examples() -> None:
    for file in sorted((find_examples() / "daggers").glob("*.yaml")):
        [dagger] = parse(file.read_text(), str(file))
        short = with_short_windows(dagger).spec.sql

        assert (short.count("'10' SECOND"), short.count("'60' SECOND")) == (
            dagger.spec.sql.count("'60' SECOND"),
            0,
        )
