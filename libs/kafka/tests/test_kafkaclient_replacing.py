"""When a client is replaced, and by what."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from kafkaclient.replacing import PATIENCE_S, Replaceable, Spell


class Clock:
    """An instant that a test moves, in seconds."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def replaceable(clock: Clock, is_answered: Callable[[], bool]) -> tuple[Replaceable[int], list[int]]:
    """Clients that are numbers, and those that were ended."""
    numbers, ended = count(), list[int]()
    return Replaceable(lambda _: next(numbers), is_answered, ended.append, clock), ended


def test_a_client_is_replaced_after_half_a_minute_of_failures_beside_a_broker_that_answers() -> None:
    clock = Clock()
    clients, ended = replaceable(clock, lambda: True)
    replaced = []
    for _ in range(4):
        replaced.append(clients.note_failure())
        clock.now += PATIENCE_S / 3

    assert replaced == [False, False, False, True]
    assert (clients.current, ended) == (1, [0])


def test_no_client_is_replaced_while_a_fresh_one_is_not_answered_either() -> None:
    clock = Clock()
    clients, ended = replaceable(clock, lambda: False)
    for _ in range(100):
        clients.note_failure()
        clock.now += 5

    assert (clients.current, ended) == (0, [])


def test_an_outage_is_looked_into_every_ten_seconds_and_no_more_often() -> None:
    clock, looks = Clock(), list[float]()

    def look() -> bool:
        looks.append(clock.now)
        return False

    clients, _ = replaceable(clock, look)
    for _ in range(600):
        clients.note_failure()
        clock.now += 0.1

    assert len(looks) == 3


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 29)), max_size=50))
def test_whoever_is_answered_at_least_every_half_minute_keeps_its_client(
    steps: list[tuple[bool, float]],
) -> None:
    clock = Clock()
    clients, _ = replaceable(clock, lambda: True)
    answered = clock.now
    for succeeds, seconds in steps:
        clock.now += seconds
        if succeeds or clock.now - answered >= PATIENCE_S:
            clients.note_success()
            answered = clock.now
        else:
            clients.note_failure()

    assert clients.current == 0


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_a_spell_begins_with_its_first_failure(instants: list[int]) -> None:
    spell = Spell()
    for instant in sorted(instants):
        spell = spell.fails(instant)

    assert spell.since == min(instants)
    assert not spell.due(min(instants) + PATIENCE_S - 1)
    assert spell.due(min(instants) + PATIENCE_S)
