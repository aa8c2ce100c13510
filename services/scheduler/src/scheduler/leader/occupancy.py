"""What of a host's room is taken beside the drivers that run, and what that leaves to whom. Pure.

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
    """What lives on a host beside drivers."""

    replays: int = 0
    """Attempts of replays."""
    computing: int = 0
    """Those of them that have Spark."""
    previews: int = 0
    """Processes that preview."""

    @staticmethod
    def of(attempts: Iterable[bool], previews: int = 0) -> Occupancy:
        """Attempts of replays, each by whether it has Spark, and processes that preview."""
        counted = Counter(attempts)
        return Occupancy(replays=counted.total(), computing=counted[True], previews=previews)


def usual_mib(room: Room) -> int:
    """What the spare needs, and a process that previews: as much as a driver of the usual size."""
    return need_mib(spec_pb2.DaggerSpec(), room.driver_memory_mib)


def for_driver(room: Room, taken: Occupancy) -> Room:
    """What is left for drivers that run, and for another one."""
    without = (taken.replays - taken.computing) * REPLAY_MIB
    return _without(room, without + taken.computing * usual_mib(room))


def for_replay(room: Room, taken: Occupancy) -> Room:
    """The same for an attempt of a replay, which is none of the drivers that are counted."""
    return replace(for_driver(room, taken), drivers=None)


def for_preview(room: Room, taken: Occupancy) -> Room:
    """The same for a process that previews, beside the others in `taken`; it is no driver either."""
    return replace(_without(for_driver(room, taken), taken.previews * usual_mib(room)), drivers=None)


def for_spare(room: Room, taken: Occupancy) -> Room:
    """The same for the spare, which is to become a driver."""
    return _without(for_driver(room, taken), taken.previews * usual_mib(room))


def _without(room: Room, mib: int) -> Room:
    return room if room.memory_mib is None else replace(room, memory_mib=room.memory_mib - mib)
