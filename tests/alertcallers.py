"""Alerts for a gateway under test, and callers of what it serves of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from daggers.v1 import access_pb2, gateway_pb2
from google.protobuf.message import Message
from tests.tenants import ROOT, Bearer

from eventlog import Draft, Log
from eventlog.memory import MemoryLog
from eventlog.testing import START

pb = gateway_pb2


class AlertCaller:
    """Calls of a gateway by one caller."""

    def __init__(self, channel: Any, token: str = ROOT) -> None:
        self._channel = channel
        self.bearer = Bearer(channel, token)

    async def call(self, method: str, **fields: Any) -> Any:
        """Call a method with the fields of its request."""
        return await getattr(self.bearer, method)(getattr(pb, f"{method}Request")(**fields))

    async def register_team(self, name: str) -> None:
        """Register a team."""
        await self.call("RegisterTeam", team=access_pb2.Team(name=name))

    async def create_account(self, name: str, team: str, role: access_pb2.Role.ValueType) -> Self:
        """Create a service account of a registered team, and return calls by it."""
        created = await self.call("CreateServiceAccount", name=name, team=team, role=role)
        return type(self)(self._channel, created.token)


async def append_alerts(log: Log, *events: Message) -> None:
    """Append events to the alerts topic, as a monitor does."""
    for event in events:
        await log.append(_build_draft(await log.end(), event))


def build_alert_log(*events: Message, time: datetime = START) -> MemoryLog:
    """Build an alerts topic that has these events."""
    log = MemoryLog()
    for number, event in enumerate(events):
        log.place(_build_draft(number, event, time).headers(), event.SerializeToString())
    return log


def _build_draft(number: int, event: Message, time: datetime = START) -> Draft:
    return Draft(f"a{number}", "/health-monitor/t", "s", time, event)
