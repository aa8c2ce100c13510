"""Judging and holding: for how long a finding has been the same, and the turn of an alert that follows. Pure.

It holds on every monitor, so who comes to lead knows as much as who led.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from daggers.v1 import alerts_pb2

from fleet import Dagger
from fleet.alerts.alert import Condition
from fleet.alerts.ledger import Ledger
from health_monitor.alerts import alert
from health_monitor.conditions.finding import Finding


class Judge:
    """What was found of everything that is watched."""

    def __init__(
        self, ledger: Ledger, *, receivers: Callable[[str], Sequence[str]], policy: alert.Policy
    ) -> None:
        """`receivers`: who is told of what fires about a team, or about daggers of it; of "": all others."""
        self._ledger, self._receivers, self._policy = ledger, receivers, policy
        self._held: dict[tuple[str, Condition], alert.Held] = {}

    def next_turn(
        self,
        name: str,
        findings: Mapping[Condition, Finding],
        *,
        of: Collection[Condition],
        now: datetime,
        dagger: Dagger | None = None,
        team: str = "",
        change: alerts_pb2.LastChange | None = None,
    ) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
        """What is due first after a look at `now`; None when nothing is. `of`: the conditions looked for.

        `dagger`: None for the platform and for a team. `team`: whose it is.
        `change`: the newest request about the dagger.
        """
        due = None
        for condition in of:
            known, finding = self._ledger.alert(name, condition), findings.get(condition)
            if finding is not None:
                finding = finding.until_well_below(firing=known.firing)
            held = self._hold(name, condition, finding, now)
            due = due or alert.decide(
                known,
                held,
                dagger=dagger,
                team=team,
                receivers=self._receivers(team),
                now=now,
                policy=self._policy,
                change=change,
            )
        return due

    def _hold(
        self, name: str, condition: Condition, finding: Finding | None, now: datetime
    ) -> alert.Held | None:
        held = alert.hold(self._held.get((name, condition)), finding, now)
        if held is None:
            self._held.pop((name, condition), None)
        else:
            self._held[name, condition] = held
        return held
