"""A gateway with two teams, to be called as whoever a test wants."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from daggers.v1 import access_pb2, events_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2

from access import tokens
from eventlog import Draft
from eventlog.memory import MemoryLog

pb = gateway_pb2
META = events_pb2.RequestMeta(actor="root")
ROOT = "a-token-of-the-first-hour"
FILE = {hashlib.sha256(ROOT.encode()).digest(): "root"}
SALT = bytes(tokens.SALT_BYTES)
ROLES = {
    "viewer": access_pb2.ROLE_VIEWER,
    "editor": access_pb2.ROLE_EDITOR,
    "owner": access_pb2.ROLE_OWNER,
}
# The secret part of each account's token; another for the viewer of the other team.
SECRETS = {
    name: bytes([number]) * tokens.SECRET_BYTES for number, name in enumerate([*ROLES, "stranger"], start=1)
}


def token_of(name: str, end: datetime | None = None) -> tuple[str, access_pb2.AccountToken]:
    return tokens.create_token(f"{name}-bot", "t1", SECRETS[name], SALT, end)


def created(name: str, team: str, role: Any, end: datetime | None = None) -> events_pb2.ServiceAccountCreated:
    account = access_pb2.ServiceAccount(name=f"{name}-bot", team=team, tokens=[token_of(name, end)[1]])
    return events_pb2.ServiceAccountCreated(meta=META, account=account, role=role)


@dataclass
class World:
    """A gateway with two teams, and calls as whoever a test wants."""

    client: Any
    log: MemoryLog
    audits: MemoryLog

    async def write(self, event: Any, subject: str = "") -> None:
        """Write an event, and wait until the gateway has it."""
        await self.log.append(Draft(f"w{await self.log.end()}", "/test", subject, datetime.now(UTC), event))
        async with asyncio.timeout(30):
            await self.client.gateway.follower.wait_for(await self.log.end())

    def bot(self, name: str) -> Bearer:
        return Bearer(self.client.channel, token_of(name)[0])

    @property
    def root(self) -> Bearer:
        return Bearer(self.client.channel, ROOT)

    async def audited(self, count: int) -> list[Any]:
        """What was audited, once there is so much of it."""
        async with asyncio.timeout(30):
            found: list[Any] = []
            async for record in self.audits.follow():
                found.append(record.message)
                if len(found) >= count:
                    return found
        raise AssertionError


class Bearer:
    """Every method of a gateway, with a token."""

    def __init__(self, channel: Any, token: str) -> None:
        self._stubs = [
            stub(channel)
            for stub in (
                gateway_pb2_grpc.DaggerServiceStub,
                gateway_pb2_grpc.CatalogServiceStub,
                gateway_pb2_grpc.AlertServiceStub,
                gateway_pb2_grpc.QuarantineServiceStub,
                gateway_pb2_grpc.SinkServiceStub,
                gateway_pb2_grpc.AccessServiceStub,
                gateway_pb2_grpc.AuditServiceStub,
                gateway_pb2_grpc.FleetServiceStub,
            )
        ]
        self._metadata = (("authorization", f"Bearer {token}"),)

    def __getattr__(self, method: str) -> Any:
        stub = next(stub for stub in self._stubs if hasattr(stub, method))
        return lambda request, timeout=30: getattr(stub, method)(
            request, timeout=timeout, metadata=self._metadata
        )


@asynccontextmanager
async def world(
    harness: Any, samples: Any, *, enforce: bool = True, log: MemoryLog | None = None, **more: Any
) -> AsyncIterator[World]:
    log = log or MemoryLog()
    async with harness.running(log, tokens=lambda: FILE, enforce=enforce, **more) as client:
        made = World(client, log, harness.audits)
        for team in ("pricing", "delivery"):
            await made.write(events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name=team)), team)
        for name, role in ROLES.items():
            await made.write(created(name, "pricing", role), f"{name}-bot")
        await made.write(created("stranger", "delivery", access_pb2.ROLE_OWNER), "stranger-bot")
        root = made.root
        await root.RegisterCluster(pb.RegisterClusterRequest(cluster=samples.cluster()))
        schema = spec_pb2.Schema(files=samples.files())
        await root.RegisterSchema(pb.RegisterSchemaRequest(schema=schema))
        await root.RegisterStream(pb.RegisterStreamRequest(stream=samples.stream()))
        await root.CreateDagger(pb.CreateDaggerRequest(name="counts", spec=samples.spec()))
        yield made
