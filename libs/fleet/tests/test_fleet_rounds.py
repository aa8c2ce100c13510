"""Rounds: what changed is looked at, and of all else a part at each tick."""

from __future__ import annotations

from datetime import timedelta

from eventlog.testing import START
from fleet.decide.rounds import PART, Rounds

TICK = timedelta(seconds=1)


def begin_rounds(count: int) -> tuple[Rounds, dict[str, None]]:
    names = dict.fromkeys(f"d{number:05}" for number in range(count))
    rounds = Rounds(TICK)
    rounds.begin(lambda: names)
    return rounds, names


def test_who_begins_looks_at_all() -> None:
    rounds, names = begin_rounds(3 * PART)

    assert rounds.take(START) == names.keys()


def test_a_small_fleet_is_looked_at_whole_at_each_tick_and_only_then() -> None:
    rounds, names = begin_rounds(PART)
    rounds.take(START)

    assert rounds.take(START + TICK / 2) == set()
    assert [rounds.take(START + number * TICK) for number in (1, 2, 5)] == [names.keys()] * 3


def test_a_large_fleet_is_looked_at_in_parts_and_what_changed_at_once() -> None:
    rounds, names = begin_rounds(3 * PART)
    rounds.take(START)
    last = list(names)[-1]
    rounds.note(last)

    changed = rounds.take(START + TICK / 2)
    parts = [set(rounds.take(START + number * TICK)) for number in (1, 2, 3, 4)]

    assert changed == {last}
    assert [len(part) for part in parts] == [PART, PART, PART, PART]
    assert set.union(*parts[:3]) == set(names)


def test_what_changed_is_not_looked_at_again_in_the_same_round() -> None:
    rounds, names = begin_rounds(2 * PART)
    rounds.take(START)
    rounds.take(START + TICK)
    left = list(names)[PART]
    rounds.note(left)
    rounds.take(START + TICK * 1.5)

    rest = rounds.take(START + 2 * TICK)

    assert len(rest) == PART - 1
    assert left not in rest


def test_a_clock_that_was_ahead_delays_no_tick_by_more_than_one() -> None:
    rounds, names = begin_rounds(3)
    rounds.take(START + timedelta(hours=1))

    assert rounds.take(START) == set()
    assert rounds.take(START + TICK) == names.keys()


def test_a_dagger_that_is_gone_from_the_scope_is_in_no_later_round() -> None:
    rounds, names = begin_rounds(2)
    rounds.take(START)
    names.pop("d00001")

    assert rounds.take(START + TICK) == {"d00000"}


def test_what_goes_on_by_itself_is_looked_at_at_each_tick_and_what_was_ended_at_the_next() -> None:
    names = dict.fromkeys(f"d{number:05}" for number in range(3 * PART))
    *_, ended, hasty = names
    rounds = Rounds(TICK)
    rounds.begin(lambda: names, lambda: [hasty])
    rounds.take(START)
    rounds.note_again(ended)
    between = rounds.take(START + TICK / 2)
    first, second = (set(rounds.take(START + number * TICK)) for number in (1, 2))

    assert between == set()
    assert {ended, hasty} <= first
    assert {ended, hasty} & second == {hasty}


def test_of_many_that_go_on_by_themselves_a_tick_looks_at_a_part() -> None:
    names = dict.fromkeys(f"d{number:05}" for number in range(4 * PART))
    rounds = Rounds(TICK)
    rounds.begin(lambda: names, lambda: reversed(names))
    rounds.take(START)

    assert len(rounds.take(START + TICK)) == 2 * PART
