"""The gateway as a whole: the fold, the projection behind it, the services in front; start and end."""

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
from api_gateway.auth.audit import Audit, Opened
from api_gateway.auth.audit_topic import AuditTopic, MemoryAudits
from api_gateway.auth.authentication import authentication
from api_gateway.auth.oidc import Verifier
from api_gateway.auth.rate_limits import limited
from api_gateway.auth.teams import Unknown
from api_gateway.hosts.client import HostAccess
from api_gateway.parts import Ground, Options, Parts, assemble
from api_gateway.quarantine.follower import QuarantineFollower
from api_gateway.quarantine.index import QuarantineIndex
from api_gateway.quarantine.topic import QuarantineTopic
from api_gateway.rpc import health, reflection
from api_gateway.rpc.alert_service import Alerts
from api_gateway.rpc.watch_vitals import Vitals
from api_gateway.state.fold import Fold
from api_gateway.state.heartbeat_cache import Heard
from api_gateway.state.projection import Projection
from api_gateway.state.projector import Projector
from api_gateway.validate.query_check_pool import Checker, in_thread
from api_gateway.validate.reachability import Bounds
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
from fleet import Applied
from fleet.snapshot.entries import Unusable

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
    heartbeats: Tail = SilentTail(),  # noqa: B008 - a constant
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
    limits: CallLimits = CallLimits(),  # noqa: B008 - a constant
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
    heard = Heard(heartbeats, fold)
    ground = Ground(
        log=log,
        follower=follower,
        fold=fold,
        projector=Projector(follower, fold, projection, applied=since),
        projection=projection,
        alerts=Alerts(alerts),
        quarantine=quarantine,
        indexed=QuarantineFollower(quarantine, QuarantineIndex(projection.database)),
        heard=heard,
        vitals=Vitals(heard, follower, fold),
        audit=Audit(audits, source),
    )
    options = Options(
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
    endless, projecting = _follow(ground, end, seen)
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
            limited(limits, lambda who: not enforce or has_role(who, fold.fleet)),
            connections,
        )
        healthy = health.Health(_SERVICES)
        # Around the other, so that a gateway that drains is still heard to.
        async with (
            health.serving(healthy, health_bind) as health_port,
            _served(ground, parts, endpoint, calls, connections, healthy, drain_s=drain_s) as port,
        ):
            yield Gateway(port, health_port, follower, fold, ground.projector, failed)
        await ground.audit.written(drain_s)
    finally:
        for task in endless:
            task.cancel()
        # The projector ends by itself: a thread of it cannot be cancelled.
        ground.projector.finish()
        await asyncio.gather(*endless, projecting, return_exceptions=True)
        await asyncio.to_thread(projection.close)


def _follow(
    ground: Ground, end: int, seen: LogPosition
) -> tuple[Sequence[asyncio.Task[None]], asyncio.Task[None]]:
    """Begin to follow: tasks without an end, and the projector's. `end`: the last sequence of the log."""
    folding = asyncio.create_task(fold_on(ground.follower, ground.fold))
    projecting = asyncio.create_task(ground.projector.run(since=max(end, seen.sequence)))
    others = (
        ground.alerts.run(),
        ground.indexed.run(),
        _hear(ground.heard, ground.follower, end),
        ground.vitals.run(),
        ground.audit.run(),
    )
    return [folding, *map(asyncio.create_task, others)], projecting


def begin(projection: Projection) -> tuple[Fold, LogPosition]:
    """The fold that a gateway begins with, and what its database has seen of the log. Blocks.

    Raises: SQLAlchemyError.
    """
    try:
        held = projection.snapshot()
        fold = Fold() if held is None else Fold.restored(held)
    except Unusable as why:
        logger().warning("snapshot.ignored", why=str(why), then="the log is folded from its first record")
        return Fold(), projection.prepare(anew=True)
    return fold, projection.prepare()


def following(log: Log, fold: Fold, seen: LogPosition) -> Follower[Applied]:
    """What follows the control topic for a gateway whose database has `seen` that much of it."""
    known = LogBaseline(seen, "give the gateway an empty database")
    return Follower(log, fold, baseline=known, patience_s=_PATIENCE_S)


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
        await follower.wait_for(end)
    await heard.run()


@asynccontextmanager
async def _served(
    ground: Ground,
    parts: Parts,
    endpoint: Endpoint,
    calls: Interceptor,
    connections: Connections,
    healthy: health.Health,
    *,
    drain_s: float,
) -> AsyncIterator[int]:
    """Answer at the endpoint until the block ends, and drain then; gives the port."""
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
        stopping = asyncio.create_task(server.stop(drain_s))  # takes no new call from now on
        idle = asyncio.create_task(calls.idle())
        await asyncio.wait((stopping, idle), return_when=asyncio.FIRST_COMPLETED)
        await server.stop(min(drain_s, _LAST_ANSWERS_S))
        await stopping
        idle.cancel()


def _first_failure(tasks: Sequence[asyncio.Task[None]]) -> asyncio.Future[None]:
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
            await follower.wait_for(end)
            await projector.reached(end)

    waiting = asyncio.create_task(ready())
    await asyncio.wait((waiting, failed), return_when=asyncio.FIRST_COMPLETED)
    if failed.done():
        waiting.cancel()
        failed.result()
    await waiting
