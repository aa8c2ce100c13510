"""Judges stores: one that takes the rows of no dagger is one incident in place of its daggers'. Pure.

A store is the server of sinks, HOST:PORT. Which sinks wait a heartbeat says, and what server each has the
specification.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from daggers.v1 import alerts_pb2, events_pb2

from daggerspec import sinks
from fleet import Dagger, Fleet
from fleet.alerts.alert import STORE, Alert
from fleet.conditions.finding import Finding, Measure, why
from fleet.fold import resolve
from fleet.fold.phases import DEGRADED, RUNNING
from fleet.health.watch import Watch
from health_monitor.conditions.cause import LEAST, Observation

CONDITION: Final = alerts_pb2.ALERT_CONDITION_STORE_AWAY
PREFIX: Final = STORE


def list_stores(fleet: Fleet, dagger: Dagger, watch: Watch) -> Iterator[tuple[str, events_pb2.DaggerError]]:
    """Yield the stores that do not take a dagger's rows, and why; the heartbeat's errors name the sinks."""
    if watch.heartbeat is None or dagger.phase not in (RUNNING, DEGRADED):
        return
    errors = {error.detail.partition(":")[0]: error for error in watch.heartbeat.retrying}
    for sink in dagger.spec.sinks:
        if sink.name in errors:
            place = sinks.destination(resolve.sink(fleet, dagger.name, dagger.spec, sink))
            if place is not None and place.server:
                yield place.server, errors[sink.name]


def find(observation: Observation) -> dict[str, Finding]:
    """Judge each store that several daggers wait for, and those with an open alert."""
    waiting = defaultdict[str, dict[str, events_pb2.DaggerError]](dict)
    for name in observation.hindered:
        dagger, watch = observation.fleet.daggers[name], observation.watches[name]
        if watch.heard_at is None or observation.now - watch.heard_at >= observation.limits.silence:
            continue  # what it said last may be over
        for store, error in list_stores(observation.fleet, dagger, watch):
            waiting[store][name] = error
    opened = observation.list_open(CONDITION, PREFIX)
    away = {store for store, daggers in waiting.items() if len(daggers) >= LEAST}
    return {store: _judge(store, waiting.get(store, {}), observation) for store in sorted(opened | away)}


def _judge(store: str, daggers: dict[str, events_pb2.DaggerError], observation: Observation) -> Finding:
    measure = Measure(len(daggers), LEAST - 1, "count")
    if len(daggers) < LEAST:
        return Finding(False, "it takes the rows of its daggers again", observation.now, measure=measure)
    first = min(daggers)
    since = min(observation.watches[name].progressed or observation.now for name in daggers)
    summary = f"{len(daggers)} daggers wait for {store}, which takes no rows: {why(daggers[first])}"
    return Finding(True, summary, since, measure=measure)


def is_recovering(follower: Alert, observation: Observation) -> bool:
    """Tell whether a dagger that made no progress has its rows taken again."""
    dagger, watch = observation.fleet.daggers.get(follower.dagger), observation.watches.get(follower.dagger)
    ends = follower.condition == alerts_pb2.ALERT_CONDITION_NO_PROGRESS
    if not ends or dagger is None or watch is None:
        return False
    return not any(True for _ in list_stores(observation.fleet, dagger, watch))
