"""The receivers of teams: whom the log says, reached by files of this host.

What they are is asked at each notification: teams change while the monitor runs. A receiver that cannot be
told holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

from daggers.v1 import access_pb2
from pydantic import SecretStr, ValidationError

from chassis import secretfile
from daggerspec.receivers import name
from fleet import Fleet
from fleet.alerts.ledger import Ledger
from health_monitor import receivers
from health_monitor.alerts.leadership import Leadership
from health_monitor.deliver.deliveries import Deliveries
from health_monitor.deliver.webhook import Channel
from health_monitor.receivers import Permanent, Temporary


def of_team(fleet: Fleet, team: str) -> list[str]:
    """Who is told of a team and its daggers because the team says so, by name."""
    entry = fleet.catalogue.teams.get(team) if team else None
    return [name(entry.value.name, receiver.kind) for receiver in entry.value.receivers] if entry else []


class TeamDeliveries:
    """Tells the receivers of teams what they are due."""

    def __init__(self, deliveries: Deliveries, fleet: Fleet, leadership: Leadership) -> None:
        self._deliveries, self._fleet, self._leadership = deliveries, fleet, leadership
        self._telling: dict[str, asyncio.Task[None]] = {}

    async def notify(self) -> None:
        """Begin with each that is told nothing just now. Raises: LogUnavailable of one that was."""
        for told in _due(self._leadership.ledger):
            if told not in self._telling:
                self._telling[told] = asyncio.create_task(self._notify(told))
        for told, task in list(self._telling.items()):
            if task.done():
                del self._telling[told]
                task.result()

    def stop(self) -> None:
        """Begin nothing more; what is under way is recorded by `Deliveries.drain`."""
        for task in self._telling.values():
            task.cancel()

    async def _notify(self, told: str) -> None:
        kind = told.rpartition("/")[2]
        pace = receivers.kind(kind).PACE if kind in receivers.names() else timedelta()
        await self._deliveries.notify_named(told, pace, partial(reached, self._fleet, told))


async def reached(fleet: Fleet, told: str) -> Channel | Temporary | Permanent:
    """A team's receiver as it is now, its secrets read; or why it cannot be told."""
    team, _, kind = told.rpartition("/")
    entry = fleet.catalogue.teams.get(team)
    said = (
        next((receiver for receiver in entry.value.receivers if receiver.kind == kind), None)
        if entry
        else None
    )
    if said is None:
        return Permanent("NOT_A_RECEIVER", f"team {team} has no receiver of the kind {kind} any more")
    if kind not in receivers.names():
        return Permanent("NOT_A_RECEIVER", f"this monitor knows no receiver of the kind {kind}")
    module = receivers.kind(kind)
    try:
        # A file may lie on a disk that hangs.
        settings = module.Settings(**await asyncio.to_thread(_read, said))
    except ValueError as error:
        detail = f"what team {team} has for {kind} cannot be used on this host: {_why(error)}"
        return Temporary("NOT_CONFIGURED", detail)
    return Channel(told, module, settings)


def _due(ledger: Ledger) -> Iterator[str]:
    """The receivers of teams that some alert is still to be told to, each once."""
    names = (
        name
        for alert in ledger.alerts.values()
        for name, delivery in alert.deliveries.items()
        if "/" in name and not delivery.done
    )
    yield from dict.fromkeys(names)


def _read(said: access_pb2.TeamReceiver) -> dict[str, SecretStr]:
    """The secrets of a receiver, white space around them dropped. Raises: ValueError."""
    return {key: SecretStr(_secret(reference.file)) for key, reference in said.secrets.items()}


def _secret(file: str) -> str:
    try:
        secret = secretfile.content(file).strip()
    except secretfile.UnreadableError as why:
        raise ValueError(f"{file}: {why}") from None
    if not secret:
        raise ValueError(f"{file}: there is nothing in it")
    return secret


def _why(error: ValueError) -> str:
    """Without what stands in the file."""
    if isinstance(error, ValidationError):
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{problem['loc'][0]}: {problem['msg'].removeprefix('Value error, ')}"
    return str(error)
