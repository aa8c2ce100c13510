"""Check how long answers to callers without a token wait."""

from __future__ import annotations

import pytest

from chassis.pacing import AT_ONCE, LONGEST_S, PER_SECOND, Pace


def test_some_answers_go_out_at_once_and_then_so_many_a_second() -> None:
    pace = Pace(per_second=2, at_once=3)

    delays = [pace.delay_s("192.0.2.1", 100.0) for _ in range(6)]

    assert delays == pytest.approx([0, 0, 0, 0.5, 1.0, 1.5])


def test_answers_that_come_no_faster_never_wait() -> None:
    pace = Pace(per_second=4, at_once=1)

    assert [pace.delay_s("192.0.2.1", 100 + second / 4) for second in range(20)] == [0.0] * 20


def test_no_answer_waits_longer_than_the_longest_and_who_stops_is_answered_soon() -> None:
    pace = Pace()
    delays = [pace.delay_s("192.0.2.1", 100.0) for _ in range(10_000)]

    assert max(delays) == LONGEST_S
    assert delays[:AT_ONCE] == [0.0] * AT_ONCE
    assert pace.delay_s("192.0.2.1", 100.0 + LONGEST_S + 1 / PER_SECOND) == 0.0


def test_networks_do_not_wait_for_one_another_and_are_forgotten() -> None:
    pace = Pace(per_second=1, at_once=1)
    for number in range(50_000):
        assert pace.delay_s(f"network {number}", float(number)) == 0.0

    assert pace.remembered <= 10_000
