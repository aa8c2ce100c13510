"""Routes of teams: the revisions of their trees, folded from `daggers.alerts`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from daggers.v1 import alerts_pb2

from eventlog import Record
from fleet.alerts.routing.labels import Labels
from fleet.alerts.routing.routes import Destination, Route, find_destinations
from fleet.alerts.routing.trees import parse_routes

MOST_REVISIONS: Final = 100
"""Revisions of a team that are remembered, the newest."""
_NOBODY: Final = Route()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRevision:
    """Revision of a team's routes."""

    team: str
    number: int
    """From 1."""
    message: alerts_pb2.AlertRoute | None
    """The tree as it was asked for; None: no routes any more."""
    tree: Route | None
    """Tree with full names of receivers."""
    actor: str
    why: str
    time: datetime | None
    """None of one that is only tried."""
    sequence: int

    def find_destinations(self, labels: Labels) -> list[Destination]:
        """List where these routes lead an alert; empty where they name nobody."""
        destinations = find_destinations(self.tree, labels, fallback=_NOBODY)
        return [replace(destination, revision=self.number) for destination in destinations]


class TeamRoutes:
    """Revisions of the routes of every team."""

    def __init__(self) -> None:
        self.revisions: dict[str, tuple[RouteRevision, ...]] = {}
        """By team, the oldest first."""

    def newest(self, team: str) -> RouteRevision | None:
        """Return the newest revision; None where the team never had routes."""
        revisions = self.revisions.get(team)
        return revisions[-1] if revisions else None

    def in_force(self, team: str) -> RouteRevision | None:
        """Return the newest revision, if it has a tree."""
        newest = self.newest(team)
        return newest if newest is not None and newest.tree is not None else None

    def change(self, changed: alerts_pb2.RoutesChanged, record: Record) -> bool:
        """Add a revision. One that is not made from the newest, or cannot be read, changes nothing."""
        newest = self.newest(changed.team)
        number = newest.number if newest else 0
        if changed.after_revision != number:
            return False
        message = changed.routes if changed.HasField("routes") else None
        try:
            tree = None if message is None else parse_routes(message, changed.team)
        except (ValueError, OverflowError):
            return False
        revision = RouteRevision(
            team=changed.team,
            number=number + 1,
            message=message,
            tree=tree,
            actor=changed.actor,
            why=changed.message,
            time=record.time,
            sequence=record.sequence,
        )
        before = self.revisions.get(changed.team, ())
        self.revisions[changed.team] = (*before, revision)[-MOST_REVISIONS:]
        return True
