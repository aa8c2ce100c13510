"""Principals whose calls are refused again and again, as the audit says. Pure: time is an argument.

Calls without a valid token have no principal: they are counted by the address they come from, and are one
incident whatever the number of addresses, so that nobody who has many makes many.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import alerts_pb2, audit_pb2

from chassis.durations import spoken
from eventlog import Record
from fleet.alerts.alert import PRINCIPAL
from fleet.alerts.ledger import Ledger
from fleet.fold.answers import some
from health_monitor.conditions.finding import Finding, Measure

CONDITION: Final = alerts_pb2.ALERT_CONDITION_REFUSALS
MOST: Final = 20
"""So many refusals of one principal are an incident."""
WITHIN: Final = timedelta(minutes=5)
"""If they came within so much time."""
UNAUTHENTICATED: Final = "unauthenticated"
"""Stands for the principal of calls without a valid token."""
_SHOWN: Final = 3
_PRINCIPALS: Final = 10_000
_KINDS: Final = (audit_pb2.AUDIT_KIND_UNSPECIFIED, audit_pb2.AUDIT_KIND_REFUSED)


@dataclass
class _Lately:
    """Refusals of one caller, oldest first: when, how many, and why."""

    refusals: deque[tuple[datetime, int, str]] = field(default_factory=deque)

    def forget(self, now: datetime) -> None:
        while self.refusals and self.refusals[0][0] <= now - WITHIN:
            self.refusals.popleft()

    @property
    def calls(self) -> int:
        return sum(calls for _, calls, _ in self.refusals)


class Refusals:
    """What the audit said in the last minutes."""

    def __init__(self) -> None:
        self.hears = False
        """Whether the audit is followed: while it is not, silence means nothing."""
        self._lately: dict[tuple[str, str], _Lately] = {}
        """By principal, and by address where there is none."""

    def begin(self) -> None:
        """What is heard from now on begins `WITHIN` ago."""
        self._lately = {}
        self.hears = True

    def heard(self, record: Record, now: datetime) -> None:
        """Take in a record of the audit."""
        call = record.message
        if not isinstance(call, audit_pb2.CallAudited) or not call.refused:
            return
        if call.kind == audit_pb2.AUDIT_KIND_UNAUTHENTICATED:
            key = UNAUTHENTICATED, call.peer
        elif call.kind in _KINDS and call.principal:
            key = call.principal, ""
        else:
            return
        if key not in self._lately and len(self._lately) >= _PRINCIPALS:
            self._forget(now)
            if len(self._lately) >= _PRINCIPALS:
                return
        lately = self._lately.setdefault(key, _Lately())
        lately.forget(now)
        lately.refusals.append((min(record.time, now), max(call.calls, 1), call.reason))

    def watched(self, ledger: Ledger, now: datetime) -> list[str]:
        """The principals to look at: those that were refused lately, and those of which an alert is open."""
        self._forget(now)
        open_ = {
            name.removeprefix(PRINCIPAL)
            for (name, condition), alert in ledger.alerts.items()
            if condition == CONDITION and alert.firing
        }
        return sorted(open_ | {principal for principal, _ in self._lately})

    def judged(self, principal: str, now: datetime) -> Finding | None:
        """Whether a principal was refused too often; None while nobody can say."""
        if not self.hears:
            return None
        lately = {key[1]: one for key, one in self._lately.items() if key[0] == principal}
        for one in lately.values():
            one.forget(now)
        most = max((one.calls for one in lately.values()), default=0)
        if most < MOST:
            text = f"it was refused less than {MOST} times in the last {spoken(WITHIN)}"
            return Finding(False, text, now, measure=Measure(most, MOST, "count"))
        many = {place: one for place, one in lately.items() if one.calls >= MOST}
        since = min(one.refusals[0][0] for one in many.values())
        times = sum(one.calls for one in many.values())
        said = f"{_who(principal, many)} refused {times} times in {spoken(WITHIN)}: {_why(many.values())}"
        return Finding(True, said, since, measure=Measure(most, MOST, "count"))

    def _forget(self, now: datetime) -> None:
        for lately in self._lately.values():
            lately.forget(now)
        self._lately = {key: lately for key, lately in self._lately.items() if lately.refusals}


def _who(principal: str, many: dict[str, _Lately]) -> str:
    if principal != UNAUTHENTICATED:
        return f"calls of {principal} were"
    return f"calls without a valid token from {some(sorted(many), _SHOWN)} were"


def _why(many: Iterable[_Lately]) -> str:
    reasons: Counter[str] = Counter()
    for one in many:
        for _, calls, reason in one.refusals:
            reasons[reason] += calls
    return ", ".join(f"{reason} ({calls})" for reason, calls in reasons.most_common(_SHOWN))
