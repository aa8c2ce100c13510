"""Compares a team's use with the soft limits of its quotas. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from daggers.v1 import alerts_pb2

from fleet import Dagger, Fleet
from fleet.alerts.alert import TEAM
from fleet.alerts.ledger import Ledger
from fleet.conditions.finding import Finding, Measure
from fleet.fold import quotas
from fleet.health import vitals
from fleet.health.watch import Watch

CONDITION: Final = alerts_pb2.ALERT_CONDITION_TEAM_QUOTA


def teams_to_judge(fleet: Fleet, ledger: Ledger) -> list[str]:
    """List the teams whose quotas warn, and those with an open alert, which may have to resolve."""
    open_ = {
        name.removeprefix(TEAM)
        for (name, condition), alert in ledger.alerts.items()
        if condition == CONDITION and alert.firing
    }
    return sorted(
        open_ | {team for team in fleet.catalogue.teams if quotas.has_warning(fleet.catalogue, team)}
    )


def judge(
    fleet: Fleet, team: str, watches: Mapping[str, Watch], *, now: datetime, hearing: datetime | None
) -> Finding | None:
    """Judge whether a team uses more than a soft limit; None while its use is not known.

    `hearing`: since when heartbeats arrive without a gap; None: they do not, and rates are unknown.
    """
    catalogue = fleet.catalogue
    if not quotas.has_warning(catalogue, team):
        return Finding(False, "no quota of the team warns", now, final=True)

    def rates(dagger: Dagger) -> tuple[float, float]:
        flows = vitals.rates(dagger, watches[dagger.name], now=now, hearing=hearing)
        return (flows[0], flows[1] * 60) if flows else (0.0, 0.0)

    own = fleet.list_of_team(team)
    if hearing is None or any(dagger.name not in watches for dagger in own):
        return None
    used = quotas.uses(fleet.catalogue, own, rates)
    more = list(quotas.find_exceeded(catalogue, team, used))
    if not more:
        return Finding(False, "it uses less than where its quotas warn", now)
    name, soft = more[0]
    summary = "; ".join(quotas.describe_exceeded(catalogue, team, used))
    return Finding(True, summary, now, measure=Measure(round(used[name]), soft, "count"))
