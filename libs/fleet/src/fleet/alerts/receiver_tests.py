"""Tests of receivers that people ask for, folded from `daggers.alerts`. Pure.

A gateway writes what is asked for, the leading monitor what became of it. One that no monitor took in time is
never carried out: a message that comes long after it was asked for says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import alerts_pb2

from eventlog import Record

IN_TIME: Final = timedelta(seconds=30)
"""Time after which nobody waits for a test any more."""
_REMEMBERED: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverTest:
    """Test of the receivers of a team."""

    id: str
    team: str
    kind: str
    """Kind of the receiver; empty: all."""
    actor: str
    time: datetime
    results: tuple[alerts_pb2.ReceiverTestResult, ...] | None = None
    """By receiver; None while it is not over."""


class ReceiverTests:
    """Tests of the last hour, the oldest first."""

    def __init__(self) -> None:
        self.by_id: dict[str, ReceiverTest] = {}

    def request(self, event: alerts_pb2.ReceiverTestRequested, record: Record) -> bool:
        """Add a test, and forget old ones. Of an id the first counts."""
        if event.test_id in self.by_id:
            return False
        old = [name for name, test in self.by_id.items() if test.time < record.time - _REMEMBERED]
        for name in old:
            del self.by_id[name]
        self.by_id[event.test_id] = ReceiverTest(
            id=event.test_id, team=event.team, kind=event.kind, actor=event.actor, time=record.time
        )
        return True

    def conclude(self, event: alerts_pb2.ReceiversTested) -> bool:
        """Note what became of a test. The first word counts."""
        test = self.by_id.get(event.test_id)
        if test is None or test.results is not None:
            return False
        self.by_id[test.id] = replace(test, results=tuple(event.results))
        return True

    def list_due(self, now: datetime) -> list[ReceiverTest]:
        """List the tests that are still to be carried out."""
        return [test for test in self.by_id.values() if test.results is None and now < test.time + IN_TIME]

    def list_since(self, team: str, time: datetime) -> Iterator[ReceiverTest]:
        """Yield the tests of a team since then."""
        return (test for test in self.by_id.values() if test.team == team and test.time > time)
