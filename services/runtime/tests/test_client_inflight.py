"""The number of requests under way settles at what a server takes."""

from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from runtime.clients.inflight import FIRST, InFlightLimit

ANSWER_S = 0.1


def served(slots: int, requests: int) -> tuple[float, int, int]:
    """Seconds, refusals and the last limit of so many requests to a server that takes `slots` at once."""
    limit, now, refusals, left = InFlightLimit(), 0.0, 0, requests
    under_way = list[tuple[float, bool]]()
    while left or under_way:
        while left and len(under_way) < limit.requests:
            is_taken = sum(grow for _, grow in under_way) < slots
            left -= is_taken
            heappush(under_way, (now + ANSWER_S, is_taken))
        now, is_taken = heappop(under_way)
        refusals += not is_taken
        limit = limit.grow() if is_taken else limit.shrink(now)
    return now, refusals, limit.requests


def test_a_server_is_used_to_three_quarters_and_a_tenth_of_requests_is_refused() -> None:
    seconds, refusals, requests = served(slots=15, requests=1_500)
    perfect = 1_500 / 15 * ANSWER_S

    assert seconds <= perfect / 0.75
    assert refusals <= 150
    assert 10 <= requests <= 20


def test_refusals_of_one_moment_count_once() -> None:
    once = InFlightLimit(100.0).shrink(1.0)

    assert (once.value, once.shrink(1.05), once.shrink(1.2).value) == (90.0, once, 81.0)


@given(st.lists(st.booleans()), st.floats(1, 64))
def test_it_stays_between_one_and_what_is_allowed(answers: list[bool], most: float) -> None:
    limit = InFlightLimit(min(FIRST, most), most)
    for number, is_taken in enumerate(answers):
        limit = limit.grow() if is_taken else limit.shrink(float(number))

        assert 1 <= limit.requests <= most
