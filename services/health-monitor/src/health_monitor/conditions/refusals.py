"""Judges principals whose calls are refused again and again, by the audit. Pure: time is an argument.

Calls without a valid token have no principal: they are counted by their address, but all addresses are one
incident, so that an attacker with many addresses cannot raise many alerts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import alerts_pb2, audit_pb2

from chassis.durations import format_span
from eventlog import Record
from fleet.alerts.alert import PRINCIPAL
from fleet.alerts.ledger import Ledger
from fleet.conditions.finding import Finding, Measure
from fleet.fold.answers import some

CONDITION: Final = alerts_pb2.ALERT_CONDITION_REFUSALS
MOST: Final = 20
"""Refusals of one principal within WITHIN that are an incident."""
WITHIN: Final = timedelta(minutes=5)
"""Window in which refusals are counted."""
UNAUTHENTICATED: Final = "unauthenticated"
"""Principal in alerts about calls without a valid token."""
_SHOWN: Final = 3
_PRINCIPALS: Final = 10_000
_KINDS: Final = (audit_pb2.AUDIT_KIND_UNSPECIFIED, audit_pb2.AUDIT_KIND_REFUSED)


@dataclass
class _RecentRefusals:
    """Refusals of one caller within WITHIN, oldest first: time, number, reason."""

    refusals: deque[tuple[datetime, int, str]] = field(default_factory=deque)

    def forget(self, now: datetime) -> None:
        while self.refusals and self.refusals[0][0] <= now - WITHIN:
            self.refusals.popleft()

    @property
    def calls(self) -> int:
        return sum(calls for _, calls, _ in self.refusals)


class Refusals:
    """Refused calls of the last minutes, by caller; at most _PRINCIPALS callers."""

    def __init__(self) -> None:
        self.hears = False
        """Whether the audit is followed: while it is not, no refusals are no evidence."""
        self._recent: dict[tuple[str, str], _RecentRefusals] = {}
        """Refusals by principal and address; the address is empty where there is a principal."""

    def begin(self) -> None:
        """Start anew, before the audit is replayed from WITHIN ago."""
        self._recent = {}
        self.hears = True

    def add(self, record: Record, now: datetime) -> None:
        """Count a record of the audit, if it is a refused call."""
        call = record.message
        if not isinstance(call, audit_pb2.CallAudited) or not call.refused:
            return
        if call.kind == audit_pb2.AUDIT_KIND_UNAUTHENTICATED:
            key = UNAUTHENTICATED, call.peer
        elif call.kind in _KINDS and call.principal:
            key = call.principal, ""
        else:
            return
        if key not in self._recent and len(self._recent) >= _PRINCIPALS:
            self._forget(now)
            if len(self._recent) >= _PRINCIPALS:
                return
        recent = self._recent.setdefault(key, _RecentRefusals())
        recent.forget(now)
        recent.refusals.append((min(record.time, now), max(call.calls, 1), call.reason))

    def principals_to_judge(self, ledger: Ledger, now: datetime) -> list[str]:
        """List principals with recent refusals, and those with an open alert, which may have to resolve."""
        self._forget(now)
        open_ = {
            name.removeprefix(PRINCIPAL)
            for (name, condition), alert in ledger.alerts.items()
            if condition == CONDITION and alert.firing
        }
        return sorted(open_ | {principal for principal, _ in self._recent})

    def judge(self, principal: str, now: datetime) -> Finding | None:
        """Judge whether a principal was refused too often; None while the audit is not followed."""
        if not self.hears:
            return None
        by_address = {key[1]: one for key, one in self._recent.items() if key[0] == principal}
        for one in by_address.values():
            one.forget(now)
        most = max((one.calls for one in by_address.values()), default=0)
        if most < MOST:
            text = f"it was refused less than {MOST} times in the last {format_span(WITHIN)}"
            return Finding(False, text, now, measure=Measure(most, MOST, "count"))
        many = {address: one for address, one in by_address.items() if one.calls >= MOST}
        since = min(one.refusals[0][0] for one in many.values())
        times = sum(one.calls for one in many.values())
        summary = (
            f"{_who(principal, many)} refused {times} times in {format_span(WITHIN)}: {_why(many.values())}"
        )
        return Finding(True, summary, since, measure=Measure(most, MOST, "count"))

    def _forget(self, now: datetime) -> None:
        for recent in self._recent.values():
            recent.forget(now)
        self._recent = {key: recent for key, recent in self._recent.items() if recent.refusals}


def _who(principal: str, many: dict[str, _RecentRefusals]) -> str:
    if principal != UNAUTHENTICATED:
        return f"calls of {principal} were"
    return f"calls without a valid token from {some(sorted(many), _SHOWN)} were"


def _why(many: Iterable[_RecentRefusals]) -> str:
    reasons: Counter[str] = Counter()
    for one in many:
        for _, calls, reason in one.refusals:
            reasons[reason] += calls
    return ", ".join(f"{reason} ({calls})" for reason, calls in reasons.most_common(_SHOWN))
