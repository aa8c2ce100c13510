"""What goes out to a sink with a limit, and when, told by a clock of its own."""

from itertools import pairwise

from daggers.v1 import spec_pb2
from hypothesis import given
from hypothesis import strategies as st

from runtime.clients import pace


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def wait(self, seconds: float) -> None:
        self.now += seconds


def sent(limit: spec_pb2.RateLimit, requests: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """When each request goes out, with its rows; each is wanted so long after the one before."""
    clock = Clock()
    held = pace.Pace(limit, lambda: clock.now, clock.wait)
    told = []
    for idle, rows in requests:
        clock.wait(idle)
        held.wait(rows)
        told.append((clock.now, rows))
    return told


REQUESTS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 500)), max_size=40)


@given(st.integers(1, 1_000), REQUESTS)
def test_in_no_time_go_out_more_rows_than_it_allows_and_one_request(
    rate: int, requests: list[tuple[float, int]]
) -> None:
    told = sent(spec_pb2.RateLimit(rows_per_second=rate), requests)

    for first, (begin, _) in enumerate(told):
        for last in range(first, len(told)):
            rows = sum(each for _, each in told[first + 1 : last + 1])
            assert rows <= (told[last][0] - begin) * rate + 1e-3


@given(st.integers(1, 100), REQUESTS)
def test_requests_are_as_far_apart_as_the_limit_says(rate: int, requests: list[tuple[float, int]]) -> None:
    times = [time for time, _ in sent(spec_pb2.RateLimit(requests_per_second=rate), requests)]

    assert all(later - time >= 1 / rate - 1e-6 for time, later in pairwise(times))


def test_without_a_limit_nobody_waits() -> None:
    told = sent(spec_pb2.RateLimit(), [(0.0, 10**6), (0.0, 10**6)])

    assert [time for time, _ in told] == [100.0, 100.0]


def test_a_request_has_no_more_rows_than_a_second_allows() -> None:
    limited, free = pace.Pace(spec_pb2.RateLimit(rows_per_second=70)), pace.Pace(spec_pb2.RateLimit())

    assert [limited.max_rows(5_000), limited.max_rows(3), free.max_rows(5_000)] == [70, 3, 5_000]
    assert pace.Pace(spec_pb2.RateLimit(rows_per_second=0.1)).max_rows(9) == 1
