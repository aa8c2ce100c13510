"""Occupancy of a host beside the drivers that run, and the room that it leaves. Pure.

Drivers and replays are asked for: each counts the others. A process that previews counts both, and other such
processes; the spare counts all. Whoever counts others gives way to them, and is not counted by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from daggers.v1 import spec_pb2

from daggerspec.limits import REPLAY_MIB
from fleet.fold.quotas import Room, need_mib


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Number of processes on a host beside drivers."""

    replays: int = 0
    """Attempts of replays."""
    computing: int = 0
    """Those of them that have Spark."""
    previews: int = 0
    """Processes that preview."""

    @staticmethod
    def of(attempts: Iterable[bool], previews: int = 0) -> Occupancy:
        """Count attempts of replays, each by whether it has Spark, and processes that preview."""
        counted = Counter(attempts)
        return Occupancy(replays=counted.total(), computing=counted[True], previews=previews)


def usual_mib(room: Room) -> int:
    """Return the MiB of the spare, and of a process that previews: as much as a driver of the usual size."""
    return need_mib(spec_pb2.DaggerSpec(), room.driver_memory_mib)


def for_driver(room: Room, occupancy: Occupancy) -> Room:
    """Return the room for drivers that run, and for another one."""
    without = (occupancy.replays - occupancy.computing) * REPLAY_MIB
    return _without(room, without + occupancy.computing * usual_mib(room))


def for_replay(room: Room, occupancy: Occupancy) -> Room:
    """Return the room for an attempt of a replay, which is none of the drivers that are counted."""
    return replace(for_driver(room, occupancy), drivers=None)


def for_preview(room: Room, occupancy: Occupancy) -> Room:
    """Return the room for a process that previews, beside the others in `occupancy`; it is no driver
    either.
    """
    return replace(_without(for_driver(room, occupancy), occupancy.previews * usual_mib(room)), drivers=None)


def for_spare(room: Room, occupancy: Occupancy) -> Room:
    """Return the room for the spare, which is to become a driver."""
    return _without(for_driver(room, occupancy), occupancy.previews * usual_mib(room))


def _without(room: Room, mib: int) -> Room:
    return room if room.memory_mib is None else replace(room, memory_mib=room.memory_mib - mib)
