"""Observations of a driver, and the scheduler's patience: the arguments of `reconcile`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from daggers.v1 import events_pb2

from daggerspec.shadow import ShadowState
from fleet.fold.quotas import Full
from fleet.health.degradation import SHOWN, Heartbeat, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Time limits and attempts of the scheduler."""

    limits: Limits = SHOWN
    """Limits of what is healthy, and shown as RUNNING."""
    hold: timedelta = timedelta(seconds=10)
    """DEGRADED lasts at least this long, so that a flapping driver does not fill the log."""
    settle: timedelta = timedelta(minutes=5)
    """After this long in RUNNING the count of attempts starts again."""
    settle_starved: timedelta = timedelta(hours=1)
    """But not sooner than this after a driver ran out of memory: its state comes back, and grows again."""
    answer: timedelta = timedelta(seconds=60)
    """Time that the agent of another host has to say what became of an intent."""
    grace: timedelta = timedelta(seconds=60)
    """A drain that takes longer becomes a kill."""
    attempts: int = 10
    """Relaunches without healthy progress before giving up."""
    catch_up: timedelta = timedelta(minutes=15)
    """A shadow that has not read as far as its driver in so long is ended."""
    handover: timedelta = timedelta(seconds=20)
    """Time after the end of the driver beside it within which a shadow has to say what there is to write."""
    first_delay: timedelta = timedelta(seconds=2)
    longest_delay: timedelta = timedelta(minutes=5)


class Presence(Enum):
    """Finding of the process table about a launch."""

    ALIVE = "alive"
    """A process of it runs on this host."""
    GONE = "gone"
    """No process of it runs on this host, where it was launched: proof of death."""
    REMOTE = "remote"
    """It was launched on another host: absence here proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowObservation:
    """Observation of the shadow of a dagger."""

    presence: Presence
    driver: events_pb2.DriverHandle | None = None
    """For an intent that nobody answered: the driver that lives on this host."""
    exit: events_pb2.Exited | None = None
    """For a shadow that is gone: its exit."""
    state: ShadowState | None = None
    """State that it last wrote; None before the first that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Observation of the newest launch of a dagger."""

    presence: Presence
    quiet_since: datetime
    """Time of its last heartbeat, or since when one could have been heard."""
    heartbeat: Heartbeat | None = None
    """Its last heartbeat."""
    driver: events_pb2.DriverHandle | None = None
    """The driver that lives on this host: for an unanswered intent, and for one its heartbeats told of."""
    exit: events_pb2.Exited | None = None
    """For a driver that is gone: its exit."""
    full: Full | None = None
    """Reason why no driver of it may be launched now; None when one may."""
    overload: str = ""
    """Of a driver that is gone and gave no sign of life: that this host has too much to do, in one clause."""
    deployment: str = ""
    """Of a driver that is gone: how the deployment ended it, in one clause; empty where it did not."""
    host_gone: bool = False
    """True when the log says that the host of its launch was gone after it."""
    rebooted: bool = False
    """True of a host that was gone because it was booted anew."""
    agent: bool = False
    """True of a launch on another host whose agent is heard, and carries out what the log says."""
    fences: bool = True
    """True when a launch on this host would fence the newest one, wherever that is: both have one lease."""
    place: str = ""
    """Host to launch on, where a launch may be wanted; empty: this one."""
    has_turn: bool = True
    """False of a driver that is to be started anew while its host has as many starts as cores."""
    cutover: bool = False
    """True when another driver of it may be launched beside its own: that is switched on, and there is room.
    """
    shadow: ShadowObservation | None = None
    """Observation of its shadow; None when there is none, and where another host's agent has it."""
