"""A cache has room for all that is used, and drops what nobody uses."""

from __future__ import annotations

import pickle
from itertools import count

from runtime.recent import UNUSED_S, cache_in_use


def test_entries_stay_as_long_as_they_are_used_however_many_there_are() -> None:
    now, built = [0.0], count()
    cached = cache_in_use(lambda key: next(built), lambda: now[0])
    first = [cached(key) for key in range(1000)]

    now[0] = UNUSED_S - 1
    again = [cached(key) for key in range(500)]
    now[0] = UNUSED_S + 1
    cached("new")
    used = [cached(key) for key in range(500)]
    unused = cached(999)

    assert first == list(range(1000))
    assert again == used == first[:500]
    assert unused == 1001


def test_arguments_by_place_and_by_name_are_told_apart_and_all_can_be_dropped() -> None:
    built = count()
    cached = cache_in_use(lambda text, *, plain=False: next(built))

    assert [cached("a"), cached("a", plain=True), cached("a"), cached("a", plain=True)] == [0, 1, 0, 1]

    cached.cache_clear()

    assert cached("a") == 2


def test_it_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(double)) is double


@cache_in_use
def double(text: str) -> str:
    """Return the text twice."""
    return text * 2
