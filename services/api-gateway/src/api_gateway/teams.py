"""What becomes of a dagger whose team nobody registered: refused, made with it, or let through as before."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from daggers.v1 import access_pb2, events_pb2, spec_pb2

from api_gateway.writer import Writer
from chassis.errors import ApiError
from chassis.interceptors import actor
from daggerspec import fields
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.answers import about


class Unknown(StrEnum):
    """What becomes of a team that is not registered."""

    ALLOW = "allow"
    REFUSE = "refuse"
    MAKE = "make"


class Teams:
    """The teams that daggers may be of."""

    def __init__(self, fleet: Fleet, writer: Writer, unknown: Unknown) -> None:
        self._fleet, self._writer, self._unknown = fleet, writer, unknown

    def violations(self, path: str, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
        """What is wrong with the team of a specification; of none the rule book speaks."""
        name = spec.team
        if not name or self._unknown is not Unknown.REFUSE or name in self._fleet.catalogue.teams:
            return
        near = nearest(name, filter(None, self._fleet.catalogue.teams))
        more = {"suggestion": near} if near else {}
        text = f"team {name} is not registered{hint(near, '')}"
        metadata = {**about("team", name), **more}
        yield Violation(path, text, "TEAM_UNKNOWN", suggestion=near, metadata=metadata)

    async def make(self, spec: spec_pb2.DaggerSpec) -> None:
        """Register the team of a specification that is about to be written, if a team may be called so.

        Daggers were of any team before there were teams: what such a one is called they go on saying.
        Raises: ApiError.
        """
        name = spec.team
        if self._unknown is not Unknown.MAKE or name in self._fleet.catalogue.teams:
            return
        if list(fields.team("spec.team", name)):
            return
        meta = events_pb2.RequestMeta(actor=actor(), expected_version=0)
        event = events_pb2.TeamRegistered(meta=meta, team=access_pb2.Team(name=name))
        try:
            await self._writer.write(name, event, "", path="spec.team")
        except ApiError:
            if name not in self._fleet.catalogue.teams:  # else somebody else made it meanwhile
                raise
