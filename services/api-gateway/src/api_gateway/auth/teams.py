"""Decide about daggers of an unregistered team: refuse them, register the team, or allow them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from daggers.v1 import access_pb2, spec_pb2

from daggerspec import fields
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.fold.answers import about


class UnknownTeamAction(StrEnum):
    """Action for a dagger whose team is not registered."""

    ALLOW = "allow"
    REFUSE = "refuse"
    MAKE = "make"


class Teams:
    """The teams that daggers may belong to."""

    def __init__(self, fleet: Fleet, unknown: UnknownTeamAction) -> None:
        self._fleet, self._unknown = fleet, unknown

    def violations(self, path: str, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
        """Yield a violation for an unregistered team; the rule book judges a missing one."""
        name = spec.team
        if not name or self._unknown is not UnknownTeamAction.REFUSE or name in self._fleet.catalogue.teams:
            return
        near = nearest(name, filter(None, self._fleet.catalogue.teams))
        more = {"suggestion": near} if near else {}
        text = f"team {name} is not registered{hint(near, '')}"
        metadata = {**about("team", name), **more}
        yield Violation(path, text, "TEAM_UNKNOWN", suggestion=near, metadata=metadata)

    def registration(self, spec: spec_pb2.DaggerSpec) -> access_pb2.Team | None:
        """Return the team to register before a specification is written; None: there is none to register.

        Daggers had teams before teams were registered, under names that are not valid now: those are kept.
        """
        name = spec.team
        if self._unknown is not UnknownTeamAction.MAKE or name in self._fleet.catalogue.teams:
            return None
        return None if list(fields.team("spec.team", name)) else access_pb2.Team(name=name)
