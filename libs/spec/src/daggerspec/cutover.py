"""Conditions under which a driver is replaced by one that begins beside it (ADR 109). Pure.

The gateway says it of each query that it has checked, the scheduler and a plan go by `why_not`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Protocol

from daggers.v1 import events_pb2, spec_pb2

from daggerspec import state

_ALIGNED: Final = ("TUMBLE", "HOP")
STATE_KEPT: Final = "its state is as good for this, so that a launch goes on where this one stops"
UNKNOWN: Final = "what was checked of its queries is not known"


class PlanWindow(Protocol):
    """The properties of a plan's window that a cutover depends on."""

    @property
    def kind(self) -> str:
        """TUMBLE, HOP or SESSION."""


class CutoverPlan(state.StatefulPlan, Protocol):
    """The properties of a plan that a cutover depends on."""

    @property
    def window(self) -> PlanWindow | None:
        """None: a forwarding query, or one with more than one window or with joins."""

    @property
    def reads(self) -> Sequence[object]:
        """One for each stream."""


def query_state(spec: spec_pb2.DaggerSpec, query: CutoverPlan) -> events_pb2.QueryState:
    """Build the state of a checked query, which launches go by."""
    return events_pb2.QueryState(identity=state.identity(spec, query), no_cutover=_unfit(spec, query))


def why_not(before: events_pb2.QueryState | None, after: events_pb2.QueryState | None) -> str:
    """Explain in a clause why one query cannot be replaced by a cutover to another; empty if it can."""
    if before is None or after is None:
        return UNKNOWN
    if before.identity == after.identity:
        return STATE_KEPT
    if after.no_cutover:
        return after.no_cutover
    return f"as it runs now, {before.no_cutover}" if before.no_cutover else ""


def _unfit(spec: spec_pb2.DaggerSpec, query: CutoverPlan) -> str:
    """Explain why no instant divides a query's rows between two drivers; empty if one does."""
    if len(query.reads) != 1:
        return "it reads more than one stream"
    if query.horizon == timedelta(0):
        return "it keeps no windows, which could end"
    if query.window is None:
        return "its windows and joins do not end together"
    if query.window.kind not in _ALIGNED:
        return "its sessions end at another instant for each key"
    if state.is_early(spec):
        return "it writes rows before their windows end"
    return "it writes rows again with late records" if state.updates(spec) else ""
