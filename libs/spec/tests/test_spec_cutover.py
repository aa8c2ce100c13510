"""Whether a driver may be replaced by one that begins beside it, of each kind of query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from daggers.v1 import events_pb2, spec_pb2

from daggerspec import cutover


@dataclass(frozen=True, slots=True)
class Window:
    kind: str


@dataclass(frozen=True, slots=True)
class Query:
    fingerprint: str = "one"
    horizon: timedelta = timedelta(minutes=1)
    lookback: timedelta = timedelta(minutes=1)
    window: Window | None = Window("TUMBLE")
    reads: tuple[str, ...] = ("stream",)


SPEC = spec_pb2.DaggerSpec()
EARLY = spec_pb2.DaggerSpec(emit=spec_pb2.EMIT_EARLY)
ONE = cutover.query_state(SPEC, Query())
TWO = cutover.query_state(SPEC, Query(fingerprint="two"))


@pytest.mark.parametrize("kind", ["TUMBLE", "HOP"])
def test_windows_that_end_together_may_be_another_drivers_from_one_of_them_on(kind: str) -> None:
    state = cutover.query_state(SPEC, Query(window=Window(kind)))

    assert (state.no_cutover, cutover.why_not(state, TWO), cutover.why_not(TWO, state)) == ("", "", "")


@pytest.mark.parametrize(
    ("spec", "query", "why"),
    [
        (SPEC, Query(window=Window("SESSION")), "sessions"),
        (SPEC, Query(window=None), "do not end together"),
        (SPEC, Query(window=None, horizon=timedelta(0)), "keeps no windows"),
        (SPEC, Query(reads=("stream", "other")), "more than one stream"),
        (EARLY, Query(), "before their windows end"),
    ],
    ids=["sessions", "joins", "forwarding", "union", "early"],
)
def test_every_other_query_stops_and_then_starts_and_says_why(
    spec: spec_pb2.DaggerSpec, query: Query, why: str
) -> None:
    state = cutover.query_state(spec, replace(query, fingerprint="three"))

    assert why in state.no_cutover
    assert cutover.why_not(ONE, state) == state.no_cutover
    assert cutover.why_not(state, ONE) == f"as it runs now, {state.no_cutover}"


def test_what_goes_on_with_its_state_needs_no_cutover_and_what_nobody_said_gets_none() -> None:
    assert cutover.why_not(ONE, ONE) == cutover.STATE_KEPT
    assert cutover.why_not(None, TWO) == cutover.why_not(ONE, None) == cutover.UNKNOWN
    assert isinstance(ONE, events_pb2.QueryState)
