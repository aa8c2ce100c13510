"""Judges hosts: one that is away is one incident in place of those of its daggers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from daggers.v1 import alerts_pb2, gateway_pb2

from chassis.durations import format_span
from fleet import Dagger, Fleet
from fleet.alerts.alert import HOST, Alert
from fleet.conditions.finding import Finding, seconds
from fleet.fold.phases import DEGRADED, RUNNING, UNREACHABLE
from fleet.health.degradation import Limits, silent
from fleet.health.watch import Watch, evidence_of
from health_monitor.conditions.cause import LEAST, Observation

CONDITION: Final = alerts_pb2.ALERT_CONDITION_HOST_AWAY
PREFIX: Final = HOST
_RUN: Final = (RUNNING, DEGRADED, UNREACHABLE)


def find(observation: Observation) -> dict[str, Finding]:
    """Judge each host that may be away, and those with an open alert; nothing while this monitor is deaf."""
    if observation.hearing is None:
        return {}
    fleet, watches, now, limits = observation.fleet, observation.watches, observation.now, observation.limits
    silent_hosts = {
        host
        for host in fleet.drivers.hosts
        if _is_silent(_list_running(fleet, host, watches), watches, now, limits)
    }
    return {
        host: _judge(host, _list_running(fleet, host, watches), watches, now, observation.hearing, limits)
        for host in sorted(observation.list_open(CONDITION, PREFIX) | silent_hosts)
    }


def is_recovering(follower: Alert, observation: Observation) -> bool:
    """Tell whether a dagger is heard, and not taken for reachable yet."""
    watch = observation.watches.get(follower.dagger)
    if watch is None or follower.condition != alerts_pb2.ALERT_CONDITION_UNREACHABLE:
        return False
    return not silent(evidence_of(watch, observation.now, observation.hearing), observation.limits)


def _list_running(fleet: Fleet, host: str, watches: Mapping[str, Watch]) -> Iterator[Dagger]:
    """Yield the daggers that run on a host and could be heard."""
    for dagger in fleet.drivers.on(host).daggers.values():
        runs_there = dagger.driver is not None and dagger.driver.host == host and dagger.phase in _RUN
        if runs_there and dagger.desired == gateway_pb2.DESIRED_RUNNING and dagger.name in watches:
            yield dagger


def _is_silent(
    daggers: Iterable[Dagger], watches: Mapping[str, Watch], now: datetime, limits: Limits
) -> bool:
    """Tell whether a host may be away: the first dagger that is heard says that it is not."""
    count = 0
    for dagger in daggers:
        heard_at = watches[dagger.name].heard_at
        if heard_at is not None and now - heard_at < limits.silence:
            return False
        count += 1
    return count >= LEAST


def _judge(
    host: str,
    daggers: Iterable[Dagger],
    watches: Mapping[str, Watch],
    now: datetime,
    hearing: datetime,
    limits: Limits,
) -> Finding:
    evidences = [evidence_of(watches[dagger.name], now, hearing) for dagger in daggers]
    if not evidences:
        return Finding(False, "no dagger runs there any more", now, final=True)
    responding = sum(not silent(evidence, limits) for evidence in evidences)
    quiet = min(evidence.quiet for evidence in evidences if evidence.quiet is not None)
    measure = seconds(quiet, limits.silence)
    if responding or len(evidences) < LEAST:
        return Finding(False, f"{responding} of its {len(evidences)} daggers are heard", now, measure=measure)
    summary = (
        f"none of the {len(evidences)} daggers on {host} has been heard for {format_span(quiet)}: the host is"
        " away, or its network is"
    )
    return Finding(True, summary, now - quiet, measure=measure)
