"""Judge: holds findings until they have lasted long enough to turn an alert. Pure.

Every monitor holds findings, not the leader alone, so that a new leader need not wait again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from daggers.v1 import alerts_pb2

from fleet import Dagger
from fleet.alerts.alert import Condition
from fleet.alerts.ledger import Ledger
from fleet.conditions.condition_limits import ConditionSettings, Setting
from fleet.conditions.finding import Finding
from health_monitor.alerts import alert

_UNSAID: Final = ConditionSettings()


class Judge:
    """Findings about all daggers, teams and principals, with the times since when they have held."""

    def __init__(
        self, ledger: Ledger, *, receivers: Callable[[str], Sequence[str]], policy: alert.Policy
    ) -> None:
        """`receivers`: by team, names of the receivers of its alerts; of "": those of all other alerts."""
        self._ledger, self._receivers, self._policy = ledger, receivers, policy
        self._findings: dict[tuple[str, Condition], alert.HeldFinding] = {}
        self.open: dict[str, None] = {}
        """Names of which something was wrong at the last look, or an alert fires: time turns those."""

    def next_turn(
        self,
        name: str,
        findings: Mapping[Condition, Finding],
        *,
        of: Collection[Condition],
        now: datetime,
        dagger: Dagger | None = None,
        team: str = "",
        store: str = "",
        change: alerts_pb2.LastChange | None = None,
        settings: Mapping[Condition, ConditionSettings] = MappingProxyType({}),
        launched: datetime | None = None,
    ) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
        """Hold the findings of `now`, and return the first turn that is due; None when none is.

        `of`: the conditions that were judged; one without a finding had no evidence. `dagger`: None for the
        platform, teams and principals. `team`: owner. `store`: one that does not take the dagger's rows.
        `change`: the newest request about the dagger.
        `settings`: what is said of conditions. `launched`: since when the driver could be heard.
        """
        due, is_open = None, False
        for condition in of:
            finding, before = findings.get(condition), self._ledger.alerts.get((name, condition))
            own = settings.get(condition, _UNSAID)
            firing = before is not None and before.firing
            finding = own.tune(finding, firing=firing, launched=launched, now=now)
            if (finding is None or not finding.active) and (before is None or not before.firing):
                self._findings.pop((name, condition), None)
                continue  # nothing is wrong, and nothing was
            current, is_open = self._ledger.alert(name, condition), True
            if finding is not None:
                clear = None if own.clear is None else own.clear.value
                finding = finding.until_well_below(firing=current.firing, clear=clear)
            held_finding = self._hold(name, condition, finding, now)
            due = due or alert.decide(
                current,
                held_finding,
                dagger=dagger,
                team=team,
                store=store,
                receivers=self._receivers(team),
                now=now,
                policy=self._policy if own.hold is None else _hold_for(self._policy, own.hold),
                change=change,
            )
        if is_open:
            self.open[name] = None
        else:
            self.open.pop(name, None)
        return due

    def _hold(
        self, name: str, condition: Condition, finding: Finding | None, now: datetime
    ) -> alert.HeldFinding | None:
        held_finding = alert.hold(self._findings.get((name, condition)), finding, now)
        if held_finding is None:
            self._findings.pop((name, condition), None)
        else:
            self._findings[name, condition] = held_finding
        return held_finding


def _hold_for(policy: alert.Policy, hold: Setting) -> alert.Policy:
    return replace(policy, hold=timedelta(seconds=hold.value))
