"""Rules of a sink's outages: what becomes of rows while it takes none, or refuses most."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields
from daggerspec.violation import Violation

AFTER: Final = timedelta(minutes=15)
"""The time for which rows wait in the log of a sink before the batch waits, too, or what the rule says."""
_Then = spec_pb2.OnOutage
_WAYS: Final = frozenset(_Then.Then.values())


def fill(sink: spec_pb2.Sink) -> None:
    """Say the defaults of what is said."""
    if sink.HasField("on_outage"):
        rule = sink.on_outage
        rule.then = rule.then or _Then.THEN_WAIT
        if rule.then != _Then.THEN_WAIT and not rule.HasField("after"):
            rule.after.FromTimedelta(AFTER)


def spools(rule: spec_pb2.OnOutage) -> bool:
    """Tell whether the rows of an outage wait in a log of their sink, and the other sinks go on."""
    return rule.HasField("after") or rule.then in (_Then.THEN_SKIP, _Then.THEN_FAIL)


def longest_wait(rule: spec_pb2.OnOutage) -> timedelta:
    """Return how old the oldest rows in the log of a sink may be before they overflow."""
    return rule.after.ToTimedelta() if rule.HasField("after") else AFTER


def violations(path: str, sink: spec_pb2.Sink) -> Iterator[Violation]:
    """Yield the violations of a sink's fields about outages and refusals."""
    rule, where = sink.on_outage, f"{path}.on_outage"
    if rule.then not in _WAYS:
        yield Violation(f"{where}.then", f"{rule.then} is no way to go on", "UNKNOWN_ENUM_VALUE")
    if rule.auto_replay and rule.then != _Then.THEN_SKIP:
        yield Violation(f"{where}.auto_replay", "goes with skip only: else none is quarantined", "UNEXPECTED")
    if rule.HasField("after"):
        yield from fields.duration(f"{where}.after", rule.after, positive=True)
    if sink.HasField("max_refused") and not 0 < sink.max_refused <= 1:
        yield Violation(f"{path}.max_refused", "must be above 0, and at most 1, which is all", "OUT_OF_RANGE")
