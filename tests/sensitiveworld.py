"""A gateway with a stream some fields of which are sensitive: who is granted them, who is not, and a host."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import grpc
from daggers.v1 import (
    access_pb2,
    events_pb2,
    gateway_pb2,
    gateway_pb2_grpc,
    host_pb2,
    host_pb2_grpc,
    spec_pb2,
    telemetry_pb2,
)

from api_gateway.hosts.client import HostAccess
from chassis.interceptors import interceptor
from eventlog import Draft

pb = gateway_pb2
ROOT = "a-token-of-the-first-hour"
FILE = {hashlib.sha256(ROOT.encode()).digest(): "root"}
FORWARDED = "SELECT city AS tag_city, status AS orders, rowtime AS window_timestamp FROM `data_stream`"
"""A query whose rows are there whatever the cities are; what a log keeps of them has no key."""
CLEAN = "SELECT status AS first, 1 AS orders, rowtime AS window_timestamp FROM `data_stream`"
MADE = CLEAN.replace("status AS first", "city AS first")
"""The same columns, one of which is made of cities."""
HIDDEN: list[list[str]] = []
"""The columns that the host was not to compute, of each preview."""
RECORD = {"city": "Jakarta", "place": {"lat": -6.2, "seen": "2026-01-01T00:00:00Z"}, "status": "COMPLETED"}


def row(city: str | None = "Jakarta") -> pb.Row:
    """A row of a city, or of none."""
    fields = [pb.RowField(name="orders", integer=3)]
    made = pb.Row(tags={} if city is None else {"tag_city": city}, key="7/1/2026", fields=fields)
    made.time.FromDatetime(datetime(2026, 1, 1, tzinfo=UTC))
    return made


STAMP = "2026-01-01T10:00:00.000Z"


class Host(host_pb2_grpc.HostServiceServicer):
    """A host with one row, one line of log and one record of a city, or of none."""

    city: str | None = "Jakarta"

    async def ReadHostRows(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - gRPC's name
        yield pb.ReadRowsResponse(rows=[row(self.city)], selected=True)

    async def WatchHostRows(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        yield pb.WatchRowsResponse(rows=[row(self.city)])

    async def ReadHostLog(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        told = json.dumps({} if self.city is None else {"tag_city": self.city})
        lines = [
            f"{STAMP} INFO log: row {told}",
            f"{STAMP} INFO runtime: row {told}",
            f"{STAMP} WARN TaskSetManager: Lost task 0.0: cannot cast {self.city}",
            f"\tat org.apache.spark.Cast({self.city}.scala:7)",
            f'{STAMP} WARN runtime: groups not looked at dagger=counts why="it \\" is {self.city}"',
            f"{STAMP} INFO runtime: batch rows={{}}",
        ]
        yield pb.ReadLogResponse(host="a", path="/driver.log", lines=lines)

    async def SampleHostStream(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        content = {name: value for name, value in {**RECORD, "city": self.city}.items() if value is not None}
        record = pb.SampledRecord(topic="bookings-1", key=self._bytes, json=json.dumps(content))
        record.size = len(record.json)
        yield pb.SampleStreamResponse(records=[record] if request.last_records else [])

    async def PreviewHostDagger(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        HIDDEN.append(list(request.masked_columns))
        example = telemetry_pb2.Quarantined(reason="MALFORMED", value=self._bytes)
        yield pb.PreviewDaggerResponse(rows=pb.PreviewRows(rows=[row(self.city)]))
        invalid = {} if self.city is None else {"bytetostring": 1}
        done = pb.PreviewDone(examples=[example], series=len(invalid), invalid=invalid)
        yield pb.PreviewDaggerResponse(done=done)

    async def ForeseeHostReplay(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        said = gateway_pb2.QuarantineForecast(records=1, reason="SINK_SCHEMA", detail=f"of {self.city}")
        yield host_pb2.ForeseenReplay(forecast=[said])

    @property
    def _bytes(self) -> bytes:
        return (self.city or "").encode()


class Caller:
    """Every method of a gateway, with a token."""

    def __init__(self, client: Any, token: str = ROOT) -> None:
        self.client, self._metadata = client, (("authorization", f"Bearer {token}"),)
        names = ("Dagger", "Catalog", "Access", "Quarantine", "Sink")
        kinds = [getattr(gateway_pb2_grpc, f"{name}ServiceStub") for name in names]
        self._stubs = [kind(client.channel) for kind in kinds]

    def ask(self, method: str, **said: Any) -> Any:
        stub = next(stub for stub in self._stubs if hasattr(stub, method))
        request = getattr(pb, f"{method}Request")(**said)
        return getattr(stub, method)(request, timeout=30, metadata=self._metadata)

    async def steps(self, method: str, **said: Any) -> list[Any]:
        """All steps of a call, or the first of a watch."""
        if method == "WatchRows":
            return [await self.ask(method, **said).read()]
        return [step async for step in self.ask(method, **said)]


@asynccontextmanager
async def world(
    harness: Any,
    samples: Any,
    *sensitive: str,
    enforce: bool = True,
    grouped: bool = False,
) -> AsyncIterator[tuple[Caller, Caller, Caller]]:
    """The administrator; an editor who is granted what is sensitive, one who is not; a dagger that runs,
    whose rows are records, or are grouped by city.
    """
    server = grpc.aio.server(interceptors=[interceptor(host_pb2.DESCRIPTOR)])
    host_pb2_grpc.add_HostServiceServicer_to_server(Host(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    access = HostAccess(here="a")
    async with harness.running(tokens=lambda: FILE, enforce=enforce, host_access=access) as client:
        root = Caller(client)
        stream = samples.stream()
        stream.sensitive.extend(sensitive)
        await root.ask("RegisterCluster", cluster=samples.cluster())
        await root.ask("RegisterSchema", schema=spec_pb2.Schema(files=samples.files()))
        await root.ask("RegisterTeam", team=access_pb2.Team(name="pricing"))
        callers = []
        for name in ("seeing-bot", "other-bot"):
            made = await root.ask(
                "CreateServiceAccount", name=name, team="pricing", role=access_pb2.ROLE_EDITOR
            )
            callers.append(Caller(client, made.token))
        await say(client, "host", events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
        await say(client, "a", events_pb2.HostServing(scheduler_id="s", host="a", address=address))
        await root.ask("RegisterStream", stream=stream)
        grant = access_pb2.StreamGrant(stream="bookings", read_sensitive=["account:seeing-bot"])
        await root.ask("SetStreamGrant", grant=grant)
        spec = samples.spec() if grouped else forwarded(samples)
        await root.ask("CreateDagger", name="counts", spec=spec)
        await launched(client, "counts")
        yield root, callers[0], callers[1]
    await server.stop(None)


async def launched(client: Any, name: str) -> None:
    """The newest version of a dagger is launched."""
    fleet = client.gateway.fold.fleet
    meta = events_pb2.FactMeta(epoch=fleet.leader.epoch, name=name)
    await say(client, name, events_pb2.LaunchIntended(meta=meta, version=fleet.daggers[name].version))


def forwarded(samples: Any, sql: str = FORWARDED, place: str = "") -> spec_pb2.DaggerSpec:
    """A specification whose rows are records, and are kept one after the other; or else in a measurement."""
    spec: spec_pb2.DaggerSpec = samples.spec()
    spec.sql = sql
    if place:
        spec.sinks[0].influx.measurement = place
    else:
        del spec.sinks[:]
        spec.sinks.add().log.limit = 100
    return spec


async def say(client: Any, subject: str, message: Any) -> None:
    draft = Draft(f"said-{await client.log.end()}", "/test", subject, datetime.now(UTC), message)
    await client.log.append(draft)
    await client.gateway.follower.wait_for(await client.log.end())


def asked(samples: Any, sql: str, place: str = "", stream: str = "bookings") -> spec_pb2.DaggerSpec:
    spec = forwarded(samples, sql, place)
    spec.streams[0].stream, spec.streams[0].table = stream, "data_stream"
    if "`others`" in sql:
        spec.streams.add(stream="plain", table="others")
    return spec


@asynccontextmanager
async def two_streams(
    harness: Any, samples: Any, sensitive: str = "city", *, enforce: bool = True
) -> AsyncIterator[tuple[Caller, Caller, Caller]]:
    """The world, with a stream of the same message beside it, nothing of which is sensitive."""
    async with world(harness, samples, sensitive, enforce=enforce) as (root, seeing, other):
        plain = samples.stream()
        plain.name = "plain"
        del plain.topics[:]
        plain.topics.append("plain-1")
        await root.ask("RegisterStream", stream=plain)
        yield root, seeing, other


async def given(who: Caller, name: str, spec: spec_pb2.DaggerSpec) -> None:
    """A dagger is applied, and launched."""
    await who.ask("ApplyDagger", name=name, spec=spec)
    await launched(who.client, name)


async def rows(who: Caller, name: str) -> Any:
    return (await who.steps("ReadRows", name=name))[0].rows[0]


def fields(row: Any) -> dict[str, str]:
    return {field.name: field.text for field in row.fields}
