"""Receivers of teams: the log names them, files of this host have their secrets. The platform is a team, too.

They are looked up for each notification, as teams change while the monitor runs. A receiver that cannot be
notified delays no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from daggers.v1 import spec_pb2
from pydantic import SecretStr, ValidationError

from chassis import secretfile
from daggerspec import address
from daggerspec.receivers import name
from fleet import Fleet
from fleet.alerts.alert import PLATFORM
from health_monitor import receivers
from health_monitor.alerts.leadership import Leadership
from health_monitor.deliver import mail
from health_monitor.deliver.deliveries import Deliveries
from health_monitor.deliver.webhook import Channel
from health_monitor.receivers import Permanent, Temporary


def receivers_of_team(fleet: Fleet, team: str) -> list[str]:
    """List the names of a team's own receivers, which get the alerts of the team and its daggers."""
    entry = fleet.catalogue.teams.get(team) if team else None
    return [name(entry.value.name, receiver.kind) for receiver in entry.value.receivers] if entry else []


class TeamDeliveries:
    """Notifies the receivers of teams, each by a task of its own."""

    def __init__(
        self,
        deliveries: Deliveries,
        fleet: Fleet,
        leadership: Leadership,
        clock: Callable[[], datetime],
    ) -> None:
        self._deliveries, self._fleet, self._leadership = deliveries, fleet, leadership
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Tasks that notify, by receiver."""

    async def notify(self) -> None:
        """Start a task for each receiver that is due and has none. Raises: LogUnavailable of ended ones."""
        for receiver in self._leadership.ledger.list_receivers(self._clock()):
            if "/" in receiver and receiver not in self._tasks:  # others are of the monitor's settings
                self._tasks[receiver] = asyncio.create_task(self._notify(receiver))
        self._end_tasks()

    async def notify_outage(self) -> None:
        """Start a task for each receiver of the platform's team that is to be told of an outage of Kafka."""
        if self._deliveries.has_outage:
            for receiver in receivers_of_team(self._fleet, PLATFORM):
                if receiver not in self._tasks:
                    self._tasks[receiver] = asyncio.create_task(self._notify_outage(receiver))
        self._end_tasks()

    def _end_tasks(self) -> None:
        for receiver, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[receiver]
                task.result()

    def stop(self) -> None:
        """Cancel the tasks; `Deliveries.drain` still records deliveries that have begun."""
        for task in self._tasks.values():
            task.cancel()

    async def _notify_outage(self, receiver: str) -> None:
        channel = await resolve_channel(self._fleet, receiver)
        if isinstance(channel, Channel):  # otherwise it is tried again, and recorded once there is a log
            await self._deliveries.notify_outage(channel)

    async def _notify(self, receiver: str) -> None:
        kind = receiver.rpartition("/")[2]
        pace = receivers.kind(kind).PACE if kind in receivers.names() else timedelta()
        await self._deliveries.notify_named(receiver, pace, partial(resolve_channel, self._fleet, receiver))


async def resolve_channel(fleet: Fleet, receiver: str) -> Channel | Temporary | Permanent:
    """Look up a team's receiver TEAM/KIND and read its secrets; an outcome: why it cannot be notified."""
    team, _, kind = receiver.rpartition("/")
    entry = fleet.catalogue.teams.get(team)
    configured = next((own for own in entry.value.receivers if own.kind == kind), None) if entry else None
    if configured is None:
        return Permanent("NOT_A_RECEIVER", f"team {team} has no receiver of the kind {kind} any more")
    if kind not in receivers.names():
        return Permanent("NOT_A_RECEIVER", f"this monitor knows no receiver of the kind {kind}")
    module = receivers.kind(kind)
    try:
        places = {key: _place(fleet, team, reference) for key, reference in configured.secrets.items()}
        # By a thread: the file may be on a network disk that hangs.
        secrets = await asyncio.to_thread(_read_secrets, places)
        values: dict[str, Any] = {**configured.settings, **secrets}
        settings = module.Settings(**values)
        _check_addresses(places, settings)
    except ValueError as error:
        detail = f"what team {team} has for {kind} cannot be used on this host: {_why(error)}"
        return Temporary("NOT_CONFIGURED", detail)
    return Channel(receiver, module, settings)


def _place(fleet: Fleet, team: str, reference: spec_pb2.SecretRef) -> spec_pb2.SecretRef:
    """Return the file of a secret, with the addresses that it may be sent to if it is registered.

    Raises: ValueError.
    """
    if not reference.name:
        return reference
    entry = fleet.catalogue.secrets.get(reference.name)
    # A secret of no team is the platform's.
    if entry is None or (entry.value.team or PLATFORM) != team:
        raise ValueError(f"team {team} has no registered secret {reference.name}")
    if entry.value.place.WhichOneof("source") != "file":
        raise ValueError(f"secret {reference.name} is a variable of drivers, and no file")
    return spec_pb2.SecretRef(file=entry.value.place.file, addresses=entry.value.addresses)


def _check_addresses(places: Mapping[str, spec_pb2.SecretRef], settings: receivers.ReceiverSettings) -> None:
    """Refuse to send a registered secret where it may not be sent. Raises: ValueError."""
    to = _server(settings.url.get_secret_value())
    for key, place in places.items():
        if place.addresses and not address.covers(place.addresses, to):
            raise ValueError(f"{key}: it may be sent to {', '.join(place.addresses)} only")


def _server(url: str) -> str:
    """Return the server of a URL as secrets name it, without credentials: https://host:port or host:port."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    if parts.scheme in mail.PORTS:
        return f"{host}:{parts.port or mail.PORTS[parts.scheme]}"
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def _read_secrets(places: Mapping[str, spec_pb2.SecretRef]) -> dict[str, SecretStr]:
    """Read the secrets of a receiver, without the white space around them. Raises: ValueError."""
    return {key: SecretStr(_read_secret(place.file)) for key, place in places.items()}


def _read_secret(file: str) -> str:
    try:
        secret = secretfile.content(file).strip()
    except secretfile.UnreadableError as why:
        raise ValueError(f"{file}: {why}") from None
    if not secret:
        raise ValueError(f"{file}: there is nothing in it")
    return secret


def _why(error: ValueError) -> str:
    """Describe the error without the value, which is a secret."""
    if isinstance(error, ValidationError):
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{problem['loc'][0]}: {problem['msg'].removeprefix('Value error, ')}"
    return str(error)
