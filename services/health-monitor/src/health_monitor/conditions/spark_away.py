"""Judges clusters: one whose Spark gives no executors is one incident in place of its daggers'. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from daggers.v1 import alerts_pb2, gateway_pb2

from daggerspec.exits import NO_EXECUTORS
from fleet import Dagger
from fleet.alerts.alert import CLUSTER, Alert
from fleet.conditions.finding import Finding, Measure, why
from fleet.fold.phases import BACKING_OFF, PENDING, STARTING
from health_monitor.conditions.cause import LEAST, Observation

CONDITION: Final = alerts_pb2.ALERT_CONDITION_SPARK_AWAY
PREFIX: Final = CLUSTER
_BETWEEN: Final = (PENDING, STARTING, BACKING_OFF)


def is_waiting(dagger: Dagger) -> bool:
    """Tell whether a dagger's last driver ended for want of executors, and none has run since."""
    error = dagger.last_error
    wants = dagger.desired == gateway_pb2.DESIRED_RUNNING and dagger.phase in _BETWEEN
    return wants and error is not None and error.reason == NO_EXECUTORS


def find(observation: Observation) -> dict[str, Finding]:
    """Judge each cluster whose daggers have no executors, and those with an open alert."""
    waiting = defaultdict[str, list[Dagger]](list)
    for name in observation.hindered:
        dagger = observation.fleet.daggers[name]
        if is_waiting(dagger):
            waiting[dagger.spec.cluster].append(dagger)
    opened = observation.list_open(CONDITION, PREFIX)
    away = {cluster for cluster, daggers in waiting.items() if len(daggers) >= LEAST}
    return {
        cluster: _judge(cluster, waiting.get(cluster, []), observation) for cluster in sorted(opened | away)
    }


def _judge(cluster: str, daggers: list[Dagger], observation: Observation) -> Finding:
    measure = Measure(len(daggers), LEAST - 1, "count")
    if len(daggers) < LEAST:
        return Finding(False, "its drivers are given executors again", observation.now, measure=measure)
    first = min(daggers, key=lambda dagger: dagger.phase_time)
    summary = (
        f"{len(daggers)} daggers of cluster {cluster} have no executors, their drivers end and are launched"
        f" again: {why(first.last_error)}"
    )
    return Finding(True, summary, first.phase_time, measure=measure)


def is_recovering(follower: Alert, observation: Observation) -> bool:
    """Tell whether a dagger that made no progress for want of executors has a driver that runs."""
    dagger = observation.fleet.daggers.get(follower.dagger)
    ends = follower.condition == alerts_pb2.ALERT_CONDITION_NO_PROGRESS
    return ends and dagger is not None and dagger.phase not in _BETWEEN
