"""The gateway as a whole: the fold, the projection behind it, the services in front; start and end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, cast

import grpc
from daggers.v1 import gateway_pb2, gateway_pb2_grpc

from access.decision import has_role
from access.limits import Limits
from api_gateway.auth.audit import Audit, Opened
from api_gateway.auth.audit_topic import AuditTopic, MemoryAudits
from api_gateway.auth.authentication import authentication
from api_gateway.auth.authorization import Gate
from api_gateway.auth.masking import Masking
from api_gateway.auth.oidc import Verifier
from api_gateway.auth.provenance import Provenance
from api_gateway.auth.rate_limits import limited
from api_gateway.auth.teams import Teams, Unknown
from api_gateway.hosts.client import HostAccess, Hosts
from api_gateway.hosts.preview_usage import PreviewSeconds
from api_gateway.hosts.previews import Previewing
from api_gateway.hosts.rows_and_logs import Readings
from api_gateway.hosts.sink_tests import SinkTests
from api_gateway.hosts.stream_samples import Samples
from api_gateway.quarantine.allowing import Allowing
from api_gateway.quarantine.follower import QuarantineFollower
from api_gateway.quarantine.index import QuarantineIndex
from api_gateway.quarantine.reads import QuarantineReads
from api_gateway.quarantine.replays import Replays
from api_gateway.quarantine.service import Parts, QuarantineService
from api_gateway.quarantine.topic import QuarantineTopic
from api_gateway.rpc import health, reflection
from api_gateway.rpc.access_service import AccessService
from api_gateway.rpc.alert_service import Alerts, AlertService
from api_gateway.rpc.audit_service import AuditService
from api_gateway.rpc.catalog_service import CatalogService
from api_gateway.rpc.dagger_service import DaggerService
from api_gateway.rpc.sink_service import SinkService
from api_gateway.rpc.watch_vitals import Vitals
from api_gateway.state.fold import Fold
from api_gateway.state.heartbeat_cache import Heard
from api_gateway.state.projection import Projection
from api_gateway.state.projector import Projector
from api_gateway.state.reader import Reader
from api_gateway.state.writer import Writer
from api_gateway.validate.dagger_requests import Requests
from api_gateway.validate.query_check_pool import Checker, in_thread
from api_gateway.validate.query_checks import Checks
from api_gateway.validate.reachability import Bounds, Reach
from chassis.connections import PER_ADDRESS, Connections, guarding
from chassis.endpoint import Endpoint, bounded
from chassis.generic import Generic
from chassis.interceptors import Check, Concern, interceptor
from chassis.logging import logger
from chassis.messages import MAX_CARRIER
from daggerspec.places import Place
from eventlog import Log, LogDamaged, LogPosition, LogReplaced
from eventlog.fold import Seen
from eventlog.follower import Follower
from eventlog.tail import Silence, Tail
from fleet import Applied
from fleet.snapshot import Unusable

# A handler that has returned still has its answer to send.
_LAST_ANSWERS_S: Final = 0.5
# How long a request may take from the log back into the fold.
_PATIENCE_S: Final = 30.0
# Of what is answered: what somebody may see of a dagger, with its schemas.
_MAX_ANSWER: Final = 16 * 1024 * 1024
_SERVICES: Final = tuple(
    service.full_name
    for file in gateway_pb2.DESCRIPTOR.public_dependencies
    for service in file.services_by_name.values()
)
# A connection's streams: watches of a portal's people come over few connections. One that is idle is closed,
# and an old one ends with its calls, so that its callers spread over the gateways there are.
_MAX_STREAMS: Final = 1_000
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that serves."""

    port: int
    health_port: int | None
    """Where it tells its health and nothing else; None: nowhere."""
    follower: Follower[Applied]
    fold: Fold
    projector: Projector
    failed: asyncio.Future[None]
    """Done when the gateway cannot go on; holds why."""


@asynccontextmanager
async def serving(
    log: Log,
    projection: Projection,
    quarantine: QuarantineTopic,
    endpoint: Endpoint,
    *,
    alerts: Log,
    heartbeats: Tail = Silence(),  # noqa: B008 - a constant
    source: str,
    reference_places: Sequence[str] = (),
    secret_places: Sequence[Place] = (),
    away: Callable[[], str] = lambda: "",
    host_access: Callable[[], HostAccess] = HostAccess,
    counted: Concern | None = None,
    audits: Opened | None = None,
    audit_topic: AuditTopic | None = None,
    verifier: Verifier | None = None,
    enforce: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - a constant
    checker: Checker = in_thread,
    bounds: Bounds = Bounds(),  # noqa: B008 - a constant
    unknown_teams: Unknown = Unknown.ALLOW,
    health_bind: str | None = None,
    per_address: int = PER_ADDRESS,
    drain_s: float = 10.0,
) -> AsyncIterator[Gateway]:
    """A gateway that has folded the log to its end and serves; drains when the block ends.

    `log` is the control topic, `quarantine` that of records that were set aside, `alerts` that of the
    health monitor, `heartbeats` that of drivers; `source` is the ce_source of what it writes;
    `reference_places` are the folders and base URLs that reference tables may be in, `secret_places`
    where tenants' secrets may be; `away` is as `Reader` takes it; `host_access` is asked at each call of
    a host's scheduler; `counted` counts calls; `audits` opens the audit's topic, `audit_topic` reads it;
    `verifier` knows the people of a provider; `enforce`: whether what is not allowed is refused, and not
    only audited; `limits` is how much one principal may ask, `bounds` what tenants may reach; `checker`
    checks queries; `unknown_teams`: what becomes of a dagger whose team is not registered; `health_bind`
    is where health is told by itself, host:port; `per_address` is how many connections one address may
    have; `drain_s` is how many seconds calls may take once the gateway drains.

    Raises: LogUnavailable, SQLAlchemyError, CannotBind.
    """
    fold, seen = await asyncio.to_thread(begin, projection)
    follower, since = following(log, fold, seen), fold.fleet.sequence
    projector = Projector(follower, fold, projection, applied=since)
    end = await log.end()
    folding = asyncio.create_task(fold_on(follower, fold))
    projecting = asyncio.create_task(projector.run(since=max(end, seen.sequence)))
    told = Alerts(alerts)
    watching = asyncio.create_task(told.run())
    index = QuarantineIndex(projection.database)
    set_aside = QuarantineFollower(quarantine, index)
    indexing = asyncio.create_task(set_aside.run())
    heard = Heard(heartbeats, fold)
    hearing = asyncio.create_task(_hear(heard, follower, end))
    vitals = Vitals(heard, follower, fold)
    stepping = asyncio.create_task(vitals.run())
    audit = Audit(audits, source)
    auditing = asyncio.create_task(audit.run())
    tasks = [folding, projecting, watching, indexing, hearing, stepping, auditing]
    failed = _first_failure(tasks)
    try:
        await _until_ready(follower, projector, end, failed)
        logger().info(
            "folded", sequence=follower.sequence, since=since, unreadable=len(fold.fleet.unreadable)
        )
        reader = Reader(follower, fold, projector, away)
        gate = Gate(gateway_pb2.DESCRIPTOR, fold, audit, enforce=enforce, places=secret_places)
        writer = Writer(follower, fold.fleet, source)
        hosts = Hosts(follower, fold, host_access)
        samples = Samples(hosts, fold.fleet)
        reach = Reach(fold.fleet, samples.kafka_id, bounds, enforce=enforce)
        teams = Teams(fold.fleet, unknown_teams)
        requests = Requests(fold.fleet, writer, Checks(checker), gate, reach, teams)
        masking = Masking(fold.fleet, Provenance(fold.fleet, log, reach.ownership), requests.made)
        healthy = health.Health(_SERVICES)
        # Around the other, so that a gateway that drains is still heard to.
        async with (
            health.serving(healthy, health_bind) as health_port,
            _served(
                log,
                follower,
                fold,
                reader,
                projection,
                _quarantined(
                    quarantine, set_aside, projection, reader, masking, requests, writer, log, fold, hosts
                ),
                endpoint,
                writer,
                requests,
                masking,
                reference_places,
                secret_places,
                hosts,
                samples,
                reach,
                heard,
                vitals,
                told,
                audit_topic or MemoryAudits(),
                away,
                counted,
                gate,
                authentication(endpoint.tokens, fold, verifier, hint=endpoint.token_hint),
                limited(limits, lambda who: not enforce or has_role(who, fold.fleet)),
                healthy,
                per_address,
                drain_s,
            ) as port,
        ):
            yield Gateway(port, health_port, follower, fold, projector, failed)
        await audit.written(drain_s)
    finally:
        folding.cancel()
        auditing.cancel()
        watching.cancel()
        indexing.cancel()
        hearing.cancel()
        stepping.cancel()
        # The projector ends by itself: a thread of it cannot be cancelled.
        projector.finish()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(projection.close)


def begin(projection: Projection) -> tuple[Fold, LogPosition]:
    """The fold that a gateway begins with, and what its database has seen of the log. Blocks.

    Raises: SQLAlchemyError.
    """
    try:
        held = projection.snapshot()
        fold = Fold() if held is None else Fold.restored(held)
    except Unusable as why:
        logger().warning("snapshot_not_used", why=str(why), then="the log is folded from its first record")
        return Fold(), projection.prepare(anew=True)
    return fold, projection.prepare()


def following(log: Log, fold: Fold, seen: LogPosition) -> Follower[Applied]:
    """What follows the control topic for a gateway whose database has `seen` that much of it."""
    known = Seen(seen, "give the gateway an empty database")
    return Follower(log, fold, seen=known, patience_s=_PATIENCE_S)


async def fold_on(follower: Follower[Applied], fold: Fold) -> None:
    """Fold for ever. Returns when the log is damaged: what is known stays known. Raises: LogUnavailable."""
    try:
        await follower.run()
    except LogReplaced:
        fold.forget()
    except LogDamaged:
        pass


async def _hear(heard: Heard, follower: Follower[Applied], end: int) -> None:
    """Hear drivers once it is known which daggers there are. Raises: LogUnavailable."""
    with suppress(LogDamaged):
        await follower.reached(end)
    await heard.run()


def _quarantined(
    topic: QuarantineTopic,
    follower: QuarantineFollower,
    projection: Projection,
    reader: Reader,
    masking: Masking,
    requests: Requests,
    writer: Writer,
    log: Log,
    fold: Fold,
    hosts: Hosts,
) -> QuarantineService:
    reads = QuarantineReads(projection.database)
    replays = Replays(requests, writer, follower, reads, topic, log, fold.fleet)
    allowing = Allowing(requests, writer, replays.asked_before)
    return QuarantineService(Parts(reader, follower, reads, masking, replays, allowing, hosts))


@asynccontextmanager
async def _served(
    log: Log,
    follower: Follower[Applied],
    fold: Fold,
    reader: Reader,
    projection: Projection,
    quarantine: QuarantineService,
    endpoint: Endpoint,
    writer: Writer,
    requests: Requests,
    masking: Masking,
    reference_places: Sequence[str],
    secret_places: Sequence[Place],
    hosts: Hosts,
    samples: Samples,
    reach: Reach,
    heard: Heard,
    vitals: Vitals,
    alerts: Alerts,
    audits: AuditTopic,
    away: Callable[[], str],
    counted: Concern | None,
    gate: Gate,
    who: Check,
    limits: Concern,
    healthy: health.Health,
    per_address: int,
    drain_s: float,
) -> AsyncIterator[int]:
    connections = Connections(per_address)
    calls = interceptor(gateway_pb2.DESCRIPTOR, who, counted, gate, limits, connections)
    server = grpc.aio.server(
        interceptors=[calls],
        options=[
            *bounded(MAX_CARRIER, _MAX_STREAMS),
            ("grpc.max_send_message_length", _MAX_ANSWER),
            ("grpc.max_connection_idle_ms", 10 * _MINUTE_MS),
            ("grpc.max_connection_age_ms", 60 * _MINUTE_MS),
        ],
    )
    services = cast(grpc.aio.Server, Generic(server))
    seconds = PreviewSeconds()
    previewing = Previewing(hosts, fold.fleet, requests, masking, seconds)
    readings = Readings(fold, hosts, heard, requests, masking)
    tests = SinkTests(hosts, fold.fleet, requests, gate)
    daggers = DaggerService(
        log,
        follower,
        fold,
        writer,
        reader,
        projection,
        hosts,
        samples,
        heard,
        requests,
        previewing,
        readings,
        vitals,
        gate,
        tests,
    )
    gateway_pb2_grpc.add_DaggerServiceServicer_to_server(daggers, services)
    catalog = CatalogService(
        fold.fleet, writer, reader, projection, samples, masking, heard, reference_places
    )
    gateway_pb2_grpc.add_CatalogServiceServicer_to_server(catalog, services)
    access = AccessService(fold.fleet, writer, reader, heard, seconds, reach, requests, masking)
    gateway_pb2_grpc.add_AccessServiceServicer_to_server(access, services)
    sinks = SinkService(fold.fleet, writer, reader, reach, tests, secret_places)
    gateway_pb2_grpc.add_SinkServiceServicer_to_server(sinks, services)
    gateway_pb2_grpc.add_QuarantineServiceServicer_to_server(quarantine, services)
    gateway_pb2_grpc.add_AlertServiceServicer_to_server(AlertService(alerts, away), services)
    gateway_pb2_grpc.add_AuditServiceServicer_to_server(AuditService(audits), services)
    server.add_generic_rpc_handlers((healthy.handler(connections),))
    reflection.enable((*_SERVICES, health.SERVICE), server)
    port = endpoint.open(server)
    await server.start()
    try:
        async with guarding(connections, port):
            yield port
    finally:
        healthy.end()
        follower.drain()
        alerts.follower.drain()
        stopping = asyncio.create_task(server.stop(drain_s))  # takes no new call from now on
        idle = asyncio.create_task(calls.idle())
        await asyncio.wait((stopping, idle), return_when=asyncio.FIRST_COMPLETED)
        await server.stop(min(drain_s, _LAST_ANSWERS_S))
        await stopping
        idle.cancel()


def _first_failure(tasks: list[asyncio.Task[None]]) -> asyncio.Future[None]:
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not failed.done():
            failed.set_exception(error)

    for task in tasks:
        task.add_done_callback(ended)
    return failed


async def _until_ready(
    follower: Follower[Applied], projector: Projector, end: int, failed: asyncio.Future[None]
) -> None:
    """Wait until the fold and the projection hold what the log held at the start."""

    async def ready() -> None:
        with suppress(LogDamaged):
            await follower.reached(end)
            await projector.reached(end)

    waiting = asyncio.create_task(ready())
    await asyncio.wait((waiting, failed), return_when=asyncio.FIRST_COMPLETED)
    if failed.done():
        waiting.cancel()
        failed.result()
    await waiting
