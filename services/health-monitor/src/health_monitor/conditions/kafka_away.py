"""Kafka as a cause: what follows from its absence gets its time to recover, before it is over. Pure.

How its absence is detected, and alerted without the log, is `health_monitor.alerts.outage`.
"""

from __future__ import annotations

from typing import Final

from daggers.v1 import alerts_pb2

from fleet.alerts.alert import HOST, Alert
from fleet.health.degradation import patience
from fleet.health.watch import evidence_of
from health_monitor.conditions import host_away
from health_monitor.conditions.cause import Observation

CONDITION: Final = alerts_pb2.ALERT_CONDITION_KAFKA_AWAY


def is_recovering(follower: Alert, observation: Observation) -> bool:
    """Tell whether an alert that it holds back is about to end: of a host or dagger that is heard again, or
    of a dagger that has had no time to make progress since heartbeats arrive.
    """
    match follower.condition:
        case alerts_pb2.ALERT_CONDITION_HOST_AWAY:
            finding = host_away.find(observation).get(follower.dagger.removeprefix(HOST))
            return finding is None or not finding.active
        case alerts_pb2.ALERT_CONDITION_NO_PROGRESS:
            return _may_progress(follower, observation)
        case _:
            return host_away.is_recovering(follower, observation)


def _may_progress(follower: Alert, observation: Observation) -> bool:
    """Tell whether a dagger has made progress in time, counted from when heartbeats arrive again."""
    dagger, watch = observation.fleet.daggers.get(follower.dagger), observation.watches.get(follower.dagger)
    if dagger is None or watch is None:
        return False
    since = observation.hearing or observation.now
    age = evidence_of(watch, observation.now, observation.hearing).progress_age
    waited = observation.now - since if age is None else min(age, observation.now - since)
    return waited < patience(dagger, observation.limits)
