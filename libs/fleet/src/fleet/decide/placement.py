"""Choose the host of a launch, by the room that drivers leave on each. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fleet.fold import quotas
from fleet.fold.dagger import Dagger
from fleet.fold.fleet import Fleet
from fleet.fold.quotas import Full, Room

AGENT_TOO_OLD: Final = "AGENT_TOO_OLD"
"""Reason of an agent that does not launch what says more than its version knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Host that can launch."""

    host: str
    room: Room
    """Room that it has for all its drivers."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that its administrator gave it."""
    lacks: frozenset[str] = frozenset()
    """What it says that it has not (`fleet.decide.requirements`)."""
    load: float = 0.0
    """Busy processors for each that it has; 0 where nobody measures it."""


def choose_host(fleet: Fleet, dagger: Dagger, candidates: Sequence[Candidate]) -> str | Full:
    """Return the host of the dagger's next launch, or why the first candidate has no room where none has.

    candidates: hosts that can launch it, at least one, the leader's own first. Where the dagger last ran it
    runs again, if there is room. Else the leader's own takes it while it has room, for edits are made beside
    the driver that runs only there, and then the one with the most memory left.
    """
    running = [fleet.daggers[name] for name in fleet.occupied if name != dagger.name]
    fits: list[tuple[float, Candidate]] = []
    reasons: list[Full] = []
    for candidate in candidates:
        there = [other for other in running if fleet.host_of(other) == candidate.host]
        full = quotas.full(fleet.catalogue, running, there, dagger, candidate.room)
        if full is not None:
            reasons.append(full)
        elif not _has_refused(dagger, candidate.host):
            left = quotas.mib_left(there, candidate.room)
            fits.append((math.inf if left is None else left, candidate))
    if not fits:
        return reasons[0] if reasons else candidates[0].host
    for _, candidate in fits:
        if candidate.host == dagger.ran_on:
            return candidate.host
    if fits[0][1] is candidates[0]:
        return candidates[0].host
    _, best = max(fits, key=lambda fit: fit[0])  # the first of those that are equal
    return best.host


def _has_refused(dagger: Dagger, host: str) -> bool:
    """Tell whether a host was the last that could not launch the dagger, because its agent is too old."""
    error = dagger.last_error
    return error is not None and error.reason == AGENT_TOO_OLD and dagger.host == host
