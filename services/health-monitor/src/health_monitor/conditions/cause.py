"""Causes that hold back alerts of many daggers: what a kind of cause is, and what it is judged by. Pure.

A kind is a module of this folder with the attributes of `Cause`; `fleet.alerts.routing.inhibition` says which
conditions follow from it, and which label they share with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from fleet import Fleet
from fleet.alerts.alert import Alert, Condition
from fleet.alerts.ledger import Ledger
from fleet.conditions.finding import Finding
from fleet.health.degradation import Limits
from fleet.health.watch import Watch

LEAST: Final = 2
"""Daggers that suffer together before there is a cause: of one its own alert says as much."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Knowledge of a monitor at an instant."""

    fleet: Fleet
    ledger: Ledger
    watches: Mapping[str, Watch]
    hindered: Collection[str]
    """Daggers with a sink that does not take their rows, or without executors."""
    now: datetime
    hearing: datetime | None
    """Since when heartbeats arrive without a gap; None while the monitor is deaf."""
    limits: Limits

    def list_open(self, condition: Condition, prefix: str) -> set[str]:
        """List the names, without their prefix, of which the condition of a cause is open."""
        return {name.removeprefix(prefix) for name in self.ledger.list_open_causes(condition)}


class SlowCause(Protocol):
    """The interface of a module of this folder whose condition is over behind what follows from it."""

    CONDITION: Condition

    def is_recovering(self, follower: Alert, observation: Observation) -> bool:
        """Tell whether an alert that it holds back is about to end: its cause is over behind it, so that
        nobody is told of what is ending.
        """


class Cause(SlowCause, Protocol):
    """The interface of a module of this folder that is a kind of cause, judged by an observation."""

    PREFIX: str
    """Prefix of its names in alerts."""

    def find(self, observation: Observation) -> dict[str, Finding]:
        """Judge, by name without the prefix, all that may be away, and those with an open alert."""
