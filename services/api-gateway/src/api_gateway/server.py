"""Start and stop a gateway: its fold, the projection, the services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, cast

import grpc
from daggers.v1 import gateway_pb2

from access.decision import has_role
from access.limits import CallLimits
from api_gateway.auth.audit import Audit, OpenLog
from api_gateway.auth.audit_topic import AuditTopic, MemoryAudits
from api_gateway.auth.authentication import authentication
from api_gateway.auth.oidc import Verifier
from api_gateway.auth.rate_limits import limit_calls
from api_gateway.auth.teams import UnknownTeamAction
from api_gateway.hosts.client import HostAccess
from api_gateway.parts import GatewayOptions, GatewayServices, Ground, assemble
from api_gateway.quarantine.follower import QuarantineFollower
from api_gateway.quarantine.index import QuarantineIndex
from api_gateway.quarantine.topic import QuarantineTopic
from api_gateway.rpc import health, reflection
from api_gateway.rpc.alert_log import Alerts
from api_gateway.rpc.watch_vitals import Vitals
from api_gateway.state.fold import Fold
from api_gateway.state.following import follow_heartbeats
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.minute_sums import MinuteCache
from api_gateway.state.minute_table import MinuteTable
from api_gateway.state.projection import Projection
from api_gateway.state.projector import Projector
from api_gateway.validate.query_check_pool import Checker, in_thread
from api_gateway.validate.reachability import ReachLimits
from chassis.connections import PER_ADDRESS, Connections, guarding
from chassis.endpoint import Endpoint, server_options
from chassis.generic import Generic
from chassis.interceptors import Concern, Interceptor, interceptor
from chassis.logging import logger
from chassis.messages import MAX_CARRIER
from daggerspec.places import Place
from eventlog import Log, LogDamaged, LogPosition, LogReplaced
from eventlog.fold import LogBaseline
from eventlog.follower import Follower
from eventlog.tail import SilentTail, Tail
from fleet import ApplyResult
from fleet.snapshot.entries import Unusable

# Seconds to send the answers of handlers that have returned.
_LAST_ANSWERS_S: Final = 0.5
# Longest time, in seconds, from the append of a request until it is folded.
_PATIENCE_S: Final = 30.0
# Largest response, in bytes: a dagger with its schemas.
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
    """A running gateway."""

    port: int
    health_port: int | None
    """Port that serves health checks alone; None: there is none."""
    follower: Follower[ApplyResult]
    fold: Fold
    projector: Projector
    failed: asyncio.Future[None]
    """Done when the gateway cannot continue; has the error."""


@asynccontextmanager
async def serving(
    log: Log,
    projection: Projection,
    quarantine: QuarantineTopic,
    endpoint: Endpoint,
    *,
    alerts: Log,
    heartbeats: Tail = SilentTail(),  # noqa: B008 - a constant
    source: str,
    reference_places: Sequence[str] = (),
    secret_places: Sequence[Place] = (),
    away: Callable[[], str] = lambda: "",
    host_access: Callable[[], HostAccess] = HostAccess,
    counted: Concern | None = None,
    audits: OpenLog | None = None,
    audit_topic: AuditTopic | None = None,
    verifier: Verifier | None = None,
    enforce: bool = False,
    limits: CallLimits = CallLimits(),  # noqa: B008 - a constant
    checker: Checker = in_thread,
    bounds: ReachLimits = ReachLimits(),  # noqa: B008 - a constant
    unknown_teams: UnknownTeamAction = UnknownTeamAction.ALLOW,
    health_bind: str | None = None,
    per_address: int = PER_ADDRESS,
    drain_s: float = 10.0,
) -> AsyncIterator[Gateway]:
    """Build a gateway on a fold of the whole log and serve while the block runs; drain at its end.

    log: the control topic. quarantine, alerts, heartbeats: the topics of quarantined records, of the health
    monitor and of drivers. source: `ce_source` of the gateway's records. reference_places: folders and base
    URLs of reference tables. secret_places: locations of tenants' secrets. away: why the log cannot be
    followed now, see `StateReader`. host_access: read at each call of a host's scheduler. counted: counts
    calls. audits: opens the audit topic for writing. audit_topic: reads it. verifier: verifies ID tokens of a
    provider. enforce: refuse forbidden calls, and not only audit them. limits: calls of one principal.
    checker: checks queries. bounds: what tenants may reach. unknown_teams: action for daggers of an
    unregistered team. health_bind: host:port of health checks alone. per_address: connections that one
    address may have. drain_s: seconds that calls may take once the gateway drains.

    Raises: LogUnavailable, SQLAlchemyError, CannotBind.
    """
    fold, seen = await asyncio.to_thread(begin, projection)
    follower, since = following(log, fold, seen), fold.fleet.sequence
    heartbeat_cache = HeartbeatCache(fold)
    ground = Ground(
        log=log,
        follower=follower,
        fold=fold,
        projector=Projector(follower, fold, projection, applied=since),
        projection=projection,
        alerts=Alerts(alerts, source=source),
        quarantine=quarantine,
        quarantine_follower=QuarantineFollower(quarantine, QuarantineIndex(projection.database)),
        heartbeats=heartbeat_cache,
        minutes=MinuteCache(fold, MinuteTable(projection.database)),
        vitals=Vitals(heartbeat_cache, follower, fold),
        audit=Audit(audits, source),
    )
    options = GatewayOptions(
        source=source,
        reference_places=reference_places,
        secret_places=secret_places,
        away=away,
        host_access=host_access,
        audit_topic=audit_topic or MemoryAudits(),
        enforce=enforce,
        checker=checker,
        bounds=bounds,
        unknown_teams=unknown_teams,
    )
    end = await log.end()
    endless, projecting = _follow(ground, heartbeats, end, seen)
    failed = _first_failure([*endless, projecting])
    try:
        await _until_ready(follower, ground.projector, end, failed)
        logger().info(
            "log.folded", sequence=follower.sequence, since=since, unreadable=len(fold.fleet.unreadable)
        )
        parts = assemble(ground, options)
        connections = Connections(per_address)
        calls = interceptor(
            gateway_pb2.DESCRIPTOR,
            authentication(endpoint.tokens, fold, verifier, hint=endpoint.token_hint),
            counted,
            parts.gate,
            limit_calls(limits, lambda who: not enforce or has_role(who, fold.fleet)),
            connections,
        )
        healthy = health.Health(_SERVICES)
        # the outer one: health checks are answered while the gateway drains
        async with (
            health.serving(healthy, health_bind) as health_port,
            _serve(ground, parts, endpoint, calls, connections, healthy, drain_s=drain_s) as port,
        ):
            yield Gateway(port, health_port, follower, fold, ground.projector, failed)
        await ground.audit.flush(drain_s)
    finally:
        for task in endless:
            task.cancel()
        # the projector ends by itself: its thread cannot be cancelled
        ground.projector.finish()
        await asyncio.gather(*endless, projecting, return_exceptions=True)
        await asyncio.to_thread(projection.close)


def _follow(
    ground: Ground, heartbeats: Tail, end: int, seen: LogPosition
) -> tuple[Sequence[asyncio.Task[None]], asyncio.Task[None]]:
    """Start the followers; return the tasks without an end, and the projector's. `end`: the log's last
    sequence.
    """
    folding = asyncio.create_task(fold_on(ground.follower, ground.fold))
    projecting = asyncio.create_task(ground.projector.run(since=max(end, seen.sequence)))
    others = (
        ground.alerts.run(),
        ground.quarantine_follower.run(),
        _hear(heartbeats, ground, end),
        ground.vitals.run(),
        ground.audit.run(),
    )
    return [folding, *map(asyncio.create_task, others)], projecting


def begin(projection: Projection) -> tuple[Fold, LogPosition]:
    """Build the fold that a gateway begins with, and return the log's position in its database. Blocks.

    Raises: SQLAlchemyError.
    """
    try:
        snapshot = projection.snapshot()
        fold = Fold() if snapshot is None else Fold.restore(snapshot)
    except Unusable as why:
        logger().warning("snapshot.ignored", why=str(why), then="the log is folded from its first record")
        return Fold(), projection.prepare(anew=True)
    return fold, projection.prepare()


def following(log: Log, fold: Fold, seen: LogPosition) -> Follower[ApplyResult]:
    """Build the follower of the control topic for a gateway whose database has `seen` that much of it."""
    log_position = LogBaseline(seen, "give the gateway an empty database")
    return Follower(log, fold, baseline=log_position, patience_s=_PATIENCE_S)


async def fold_on(follower: Follower[ApplyResult], fold: Fold) -> None:
    """Fold until cancelled. Returns when the log is damaged; the state so far stays. Raises:
    LogUnavailable.
    """
    try:
        await follower.run()
    except LogReplaced:
        fold.forget()
    except LogDamaged:
        pass


async def _hear(heartbeats: Tail, ground: Ground, end: int) -> None:
    """Read heartbeats once the fold knows which daggers there are. Raises: LogUnavailable."""
    with suppress(LogDamaged):
        await ground.follower.wait_for(end)
    await follow_heartbeats(heartbeats, ground.heartbeats, ground.minutes)


@asynccontextmanager
async def _serve(
    ground: Ground,
    parts: GatewayServices,
    endpoint: Endpoint,
    calls: Interceptor,
    connections: Connections,
    healthy: health.Health,
    *,
    drain_s: float,
) -> AsyncIterator[int]:
    """Serve at the endpoint until the block ends, and drain then; yield the port."""
    server = grpc.aio.server(
        interceptors=[calls],
        options=[
            *server_options(MAX_CARRIER, _MAX_STREAMS),
            ("grpc.max_send_message_length", _MAX_ANSWER),
            ("grpc.max_connection_idle_ms", 10 * _MINUTE_MS),
            ("grpc.max_connection_age_ms", 60 * _MINUTE_MS),
        ],
    )
    parts.add_to(cast(grpc.aio.Server, Generic(server)))
    server.add_generic_rpc_handlers((healthy.handler(connections),))
    reflection.enable((*_SERVICES, health.SERVICE), server)
    port = endpoint.open(server)
    await server.start()
    try:
        async with guarding(connections, port):
            yield port
    finally:
        healthy.end()
        ground.follower.drain()
        ground.alerts.follower.drain()
        stopping = asyncio.create_task(server.stop(drain_s))  # accepts no new call from now on
        idle = asyncio.create_task(calls.idle())
        await asyncio.wait((stopping, idle), return_when=asyncio.FIRST_COMPLETED)
        await server.stop(min(drain_s, _LAST_ANSWERS_S))
        await stopping
        idle.cancel()


def _first_failure(tasks: Sequence[asyncio.Task[None]]) -> asyncio.Future[None]:
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def record_failure(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not failed.done():
            failed.set_exception(error)

    for task in tasks:
        task.add_done_callback(record_failure)
    return failed


async def _until_ready(
    follower: Follower[ApplyResult], projector: Projector, end: int, failed: asyncio.Future[None]
) -> None:
    """Wait until the fold and the projection have reached the log's end of the start."""

    async def ready() -> None:
        with suppress(LogDamaged):
            await follower.wait_for(end)
            await projector.wait_for(end)

    waiting = asyncio.create_task(ready())
    await asyncio.wait((waiting, failed), return_when=asyncio.FIRST_COMPLETED)
    if failed.done():
        waiting.cancel()
        failed.result()
    await waiting
