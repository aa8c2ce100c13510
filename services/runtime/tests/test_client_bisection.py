"""Which rows are refused, whatever a server answers of whichever of them: rows in, verdicts out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.clients import bisection
from runtime.clients.bisection import Bisection, DestinationHistory, RefusalCause, Rows, divide
from runtime.errors import JobError, TemporaryError, external

_SCHEMA = external("SINK_SCHEMA", "The server takes no rows.", retryable=True)
VALUES = RefusalCause("OUT_OF_RANGE", "A value is out of range.")
UNCLEAR = RefusalCause("SINK_REFUSED", "The server refuses the row.", otherwise=_SCHEMA)
MORE = settings(max_examples=settings.default.max_examples * 5)


class Server:
    """Takes rows but for some, of which it refuses a request; it names them, or does not."""

    def __init__(self, bad: set[int], why: RefusalCause, *, names: bool = False) -> None:
        self.bad, self.why, self.names = bad, why, names
        self.written: list[int] = []
        self.tries = 0
        self.now = 0.0

    def attempt(self, rows: Rows) -> RefusalCause | None:
        """One request."""
        self.tries += 1
        self.now += 0.001
        wrong = [row for row in rows if row in self.bad]
        if self.names or not wrong:
            self.written += [row for row in rows if row not in self.bad]
        if not wrong:
            return None
        return RefusalCause(
            self.why.reason, self.why.detail, self.why.otherwise, wrong if self.names else None
        )

    def divided(
        self, parts: Sequence[Rows], history: DestinationHistory | None = None, *, may_refuse: bool = False
    ) -> list[int]:
        """The rows that are refused."""
        history = history or DestinationHistory()
        refused = divide(parts, self.attempt, history, may_refuse=may_refuse, clock=lambda: self.now)
        return [each.row for each in refused]


_SUBSETS = st.integers(1, 300).flatmap(
    lambda rows: st.tuples(st.just(rows), st.sets(st.integers(0, rows - 1)), st.integers(1, rows))
)


@MORE
@given(case=_SUBSETS, why=st.sampled_from([VALUES, UNCLEAR]), names=st.booleans())
@example(case=(300, set(range(299)), 300), why=UNCLEAR, names=False)
def test_whichever_rows_are_bad_they_alone_are_refused_and_the_others_are_written_in_order(
    case: tuple[int, set[int], int], why: RefusalCause, names: bool
) -> None:
    rows, bad, most = case
    server = Server(bad, why, names=names)
    parts = [range(start, min(start + most, rows)) for start in range(0, rows, most)]
    if len(bad) == rows and why is UNCLEAR:
        with pytest.raises(JobError, match="SINK_SCHEMA"):
            server.divided(parts)
        refused = sorted(bad)
    else:
        refused = server.divided(parts)

    assert refused == sorted(bad)
    assert server.written == [row for row in range(rows) if row not in bad]


@MORE
@given(rows=st.integers(1, 100_000), data=st.data())
def test_one_bad_row_costs_few_further_tries(rows: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, rows - 1))
    server = Server({bad}, VALUES)

    assert server.divided([range(rows)]) == [bad]
    assert server.tries - 1 <= 2 * math.log2(rows) + 8


def test_many_bad_rows_cost_less_once_it_is_known_how_many_there_are() -> None:
    bad, history = set(range(0, 4_096, 16)), DestinationHistory()
    first, second = Server(bad, VALUES), Server(bad, VALUES)

    assert first.divided([range(4_096)], history) == sorted(bad)
    assert second.divided([range(4_096)], history) == sorted(bad)
    assert second.tries < 0.9 * first.tries


def test_what_was_learnt_is_forgotten_after_a_minute() -> None:
    bad, history = set(range(0, 4_096, 16)), DestinationHistory()
    Server(bad, VALUES).divided([range(4_096)], history)
    later = Server(set(), VALUES)
    later.now = bisection.MEMORY_S + 10
    later.divided([range(4_096)], history)

    assert later.tries == 1


def test_a_destination_that_takes_no_row_waits_and_costs_little_when_it_is_tried_again() -> None:
    history, server = DestinationHistory(), Server(set(range(1_024)), UNCLEAR)
    for _ in range(2):
        tried = server.tries
        with pytest.raises(JobError, match="SINK_SCHEMA"):
            server.divided([range(1_024)], history)

    assert server.tries - tried <= math.log2(1_024) + 1


def test_a_destination_that_was_mended_takes_all_rows_with_the_next_try() -> None:
    history, server = DestinationHistory(), Server(set(range(1_024)), UNCLEAR)
    with pytest.raises(JobError):
        server.divided([range(1_024)], history)
    server.bad = set()

    assert server.divided([range(1_024)], history) == []


def test_a_bad_row_is_found_soon_after_a_destination_was_mended() -> None:
    history, server = DestinationHistory(), Server(set(range(64)), UNCLEAR)
    with pytest.raises(JobError):
        server.divided([range(64)], history)
    server.bad, server.now = {0}, server.now + bisection.MEMORY_S
    refused = server.divided([range(64)], history)

    assert (refused, server.written) == ([0], [*range(1, 64)])


def test_rows_of_which_none_passes_are_not_divided_for_ever() -> None:
    server = Server(set(range(100_000)), VALUES)
    with pytest.raises(TemporaryError, match=r"SINK_REFUSES_MOST.*OUT_OF_RANGE.*quarantine allow"):
        server.divided([range(100_000)])

    assert server.now < bisection.BUDGET_S + 0.1


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_row_by_itself_is_refused_where_the_destination_takes_others(is_sound: bool) -> None:
    server, rows = Server({0}, UNCLEAR), Bisection([[0]])
    rows.reject(rows.next(0.0) or (), UNCLEAR, 0.0)
    assert (server.written, rows.next(0.0)) == ([], None)
    if not is_sound:
        with pytest.raises(JobError, match="SINK_SCHEMA"):
            rows.finish(0.0, is_sound=lambda: False)
        return

    assert [each.row for each in rows.finish(0.0, is_sound=lambda: True)] == [0]


def test_a_row_by_itself_is_refused_where_that_was_allowed() -> None:
    refused = divide([[0]], lambda _: UNCLEAR, DestinationHistory(), may_refuse=True)

    assert [(each.row, each.reason, each.by_server) for each in refused] == [(0, "SINK_REFUSED", True)]


@given(case=_SUBSETS, why=st.sampled_from([VALUES, UNCLEAR]), names=st.booleans(), closed=st.booleans())
@example(case=(50, set(range(50)), 50), why=UNCLEAR, names=False, closed=True)
@example(case=(300, set(range(300)), 20), why=VALUES, names=False, closed=True)
def test_where_all_may_be_refused_each_row_is_taken_or_refused(
    case: tuple[int, set[int], int], why: RefusalCause, names: bool, closed: bool
) -> None:
    rows, bad, most = case
    server, history = Server(bad, why, names=names), DestinationHistory()
    if closed:  # it took no row a moment ago, and then somebody allowed it
        history.record_closed(0.0)
        server.now = 5.0
    parts = [range(start, min(start + most, rows)) for start in range(0, rows, most)]
    refused = server.divided(parts, history, may_refuse=True)

    assert sorted([*server.written, *refused]) == [*range(rows)]
    assert refused == sorted(bad)


def test_rows_that_may_all_be_refused_are_tried_for_as_long_as_it_takes() -> None:
    server = Server(set(range(20_000)), VALUES)

    assert server.divided([range(20_000)], may_refuse=True) == [*range(20_000)]
    assert server.now > bisection.BUDGET_S


def test_what_is_allowed_a_moment_after_a_destination_took_none_is_refused_row_by_row() -> None:
    server, history = Server(set(range(50)), UNCLEAR), DestinationHistory()
    with pytest.raises(JobError, match="SINK_SCHEMA"):
        server.divided([range(50)], history)
    server.now += 5

    assert server.divided([range(50)], history, may_refuse=True) == [*range(50)]


def test_a_row_whose_values_are_the_reason_is_refused_whatever_passes() -> None:
    assert [each.row for each in divide([[0]], lambda _: VALUES, DestinationHistory())] == [0]


def test_what_a_server_says_of_itself_ends_the_division() -> None:
    def attempt(_: Rows) -> RefusalCause | None:
        raise TemporaryError("SINK_UNAVAILABLE", "It does not answer.")

    with pytest.raises(TemporaryError, match="SINK_UNAVAILABLE"):
        divide([range(10)], attempt, DestinationHistory())
