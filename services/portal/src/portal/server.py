"""A portal on its address: built of its parts, and served until it is stopped."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from chassis.binding import host_and_port, is_loopback
from chassis.connections import PER_ADDRESS
from chassis.endpoint import CannotBind
from chassis.logging import logger
from chassis.metrics import Metrics
from portal.app import application
from portal.bridge import LOOK_S, Bridge, channel
from portal.entry import Links, LoginMethod, LoginRoutes
from portal.metrics import CALLS, LOGINS, counter, gauges
from portal.pages import NOT_BUILT, Pages
from portal.sessions import Sessions
from portal.transport import answering


@dataclass(frozen=True, slots=True)
class PortalPlan:
    """Parts and limits of a portal. gateway: HOST:PORT or https://HOST:PORT; authority: PEM."""

    bind: str
    gateway: str
    authority: bytes | None
    origin: str
    login_method: LoginMethod
    sessions: Path
    idle_s: float
    life_s: float
    drain_s: float
    look_s: float = LOOK_S
    """Interval, in seconds, in which a stream checks whether its session continues."""
    certificate: tuple[Path, Path] | None = None
    """Files of the certificate chain and its key."""
    metrics_bind: str = ""
    """Address for Prometheus, host:port; empty: none."""
    connections_per_address: int = PER_ADDRESS
    links: Links = field(default_factory=Links)
    pages: Pages = field(default_factory=Pages)


@asynccontextmanager
async def serving(plan: PortalPlan, clock: Callable[[], float] = time.time) -> AsyncIterator[int]:
    """Serve while the block runs; yield the port. Raises: CannotBind."""
    if not plan.pages.built:
        logger().warning("pages.not_built", then=NOT_BUILT)
    listener = _listener(plan.bind)
    port: int = listener.getsockname()[1]
    closing = asyncio.Event()
    sessions = Sessions(plan.sessions, idle_s=plan.idle_s, life_s=plan.life_s, clock=clock)
    gateway = channel(plan.gateway, plan.authority)
    try:
        metrics = Metrics("portal")
        entry = LoginRoutes(
            plan.login_method, sessions, clock, version("portal"), counter(metrics, LOGINS), plan.links
        )
        bridge = Bridge(gateway, entry, closing, plan.look_s, counter(metrics, CALLS))
        app = application(
            bridge,
            entry,
            plan.pages,
            hosts=_hosts(plan, port),
            secure=plan.login_method.secure,
        )
        async with (
            metrics.serving(plan.metrics_bind, lambda: gauges(bridge.streams, sessions.count())),
            answering(app, listener, plan.certificate, plan.connections_per_address, plan.drain_s),
        ):
            try:
                logger().info(
                    "service.started",
                    address=f"{plan.bind.rpartition(':')[0]}:{port}",
                    asked=plan.login_method.required,
                )
                yield port
            finally:
                closing.set()
    finally:
        listener.close()
        await gateway.close()
        sessions.close()


def _hosts(plan: PortalPlan, port: int) -> set[str]:
    """Return the names by which browsers may call the portal: its own, and those of loopback where it is
    there.
    """
    parts = urlsplit(plan.origin)
    names = {parts.netloc.lower()}
    if plan.login_method.provider is None and is_loopback(plan.bind):
        names |= {f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]")}
    return names


def _listener(bind: str) -> socket.socket:
    """Open the listening socket. Raises: CannotBind."""
    host, port = host_and_port(bind)
    host = host.strip("[]")
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128
        )
    except OSError as error:
        raise CannotBind(f"cannot serve on {bind}: {error.strerror or error}") from error
