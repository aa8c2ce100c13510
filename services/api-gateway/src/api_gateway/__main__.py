"""`python -m api_gateway`: read the settings, build the gateway, serve until SIGTERM.

It has the shape and the exit codes of `chassis.service`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from api_gateway.auth.audit_topic import KafkaAudits
from api_gateway.auth.oidc import Verifier, build_fetch
from api_gateway.hosts.client import HostAccess
from api_gateway.metrics import gauges
from api_gateway.quarantine.topic import KafkaQuarantine
from api_gateway.server import serving
from api_gateway.settings import GatewaySettings
from api_gateway.state.projection import Projection
from api_gateway.validate.query_check_pool import check_processes
from chassis import logging, service
from chassis.connections import PER_ADDRESS
from chassis.endpoint import Endpoint, endpoint, reload_files
from chassis.gc_tuning import ALIVE, tune_gc
from chassis.metrics import Metrics
from chassis.tokenfile import first_token
from eventlog import Log, LogError, topics
from eventlog.admin import await_topics, ensure_topics
from eventlog.kafka import KafkaLog
from eventlog.tail import KafkaTail
from kafkaclient import Connection


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """Settings, and what was read from the files that they name."""

    settings: GatewaySettings
    endpoint: Endpoint
    access: Callable[[], HostAccess]


def main() -> int:
    """Serve; return the exit code."""
    away = (LogError,)
    return service.run("api-gateway", GatewaySettings, sys.argv[1:], read=_read, serve=_serve, away=away)


def _read(settings: GatewaySettings) -> GatewayConfig:
    """Read the files that settings name. Raises: OSError, ValueError where one cannot be used."""
    endpoint_ = endpoint(
        settings.bind,
        certificate=settings.tls_cert_file,
        key=settings.tls_key_file,
        tokens=settings.token_file,
        token_hint=settings.token_hint,
    )
    return GatewayConfig(settings, endpoint_, _host_access(settings))


async def _serve(config: GatewayConfig, stop_requested: asyncio.Event) -> None:
    projection = Projection(config.settings.database_url)
    try:
        await _serve_from(projection, config, stop_requested)
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()[0]
        raise service.Unavailable(f"the database {projection.place} cannot be used: {cause}") from error


async def _serve_from(projection: Projection, config: GatewayConfig, stop_requested: asyncio.Event) -> None:
    settings, reached = config.settings, config.endpoint
    source = f"/api-gateway/{socket.gethostname()}-{os.getpid()}"
    metrics = Metrics("api-gateway")
    kafka, served = settings.kafka(), asyncio.Event()
    if not await await_topics(kafka, stop_requested):
        return
    async with (
        KafkaLog(kafka, topics.CONTROL) as log,
        KafkaLog(kafka, topics.ALERTS) as alerts,
        check_processes(after=served) as checker,
        serving(
            log,
            projection,
            KafkaQuarantine(kafka),
            reached,
            alerts=alerts,
            heartbeats=KafkaTail(kafka, topics.HEARTBEATS),
            source=source,
            reference_places=settings.allowed_references,
            secret_places=settings.allowed_secrets,
            away=lambda: log.away,
            host_access=config.access,
            counted=metrics.calls(),
            audits=partial(_audits, kafka),
            audit_topic=KafkaAudits(kafka),
            verifier=_verifier(settings),
            enforce=settings.access == "enforce",
            limits=settings.limits,
            checker=checker,
            bounds=settings.bounds,
            unknown_teams=settings.unknown_team_action,
            health_bind=settings.health_bind,
            per_address=settings.connections_per_address or PER_ADDRESS,
        ) as gateway,
        metrics.serving(settings.metrics_bind, lambda: gauges(gateway, lambda: log.away)),
    ):
        served.set()
        tune_gc(ALIVE)
        host = settings.bind.rpartition(":")[0]
        logging.logger().info("service.started", address=f"{host}:{gateway.port}", tls=reached.tls)
        stop = asyncio.create_task(stop_requested.wait())
        await asyncio.wait((stop, gateway.failed), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if gateway.failed.done():
            gateway.failed.result()
        logging.logger().info("service.drain_started")


@asynccontextmanager
async def _audits(kafka: Connection) -> AsyncGenerator[Log]:
    """Open the audit topic, and create it where it is missing. Raises: LogError."""
    await ensure_topics(kafka, (topics.AUDITS,))
    async with KafkaLog(kafka, topics.AUDIT) as log:
        yield log


def _verifier(settings: GatewaySettings) -> Verifier | None:
    provider = settings.provider
    return (
        Verifier(provider, build_fetch(provider.issuer, settings.allowed, settings.proxies))
        if provider
        else None
    )


def _host_access(settings: GatewaySettings) -> Callable[[], HostAccess]:
    """Build the reader of credentials for hosts, which reads files again when they change.

    Raises: OSError, ValueError where a file cannot be used.
    """
    tokens, authority = settings.host_token_file, settings.host_ca_file

    def read() -> HostAccess:
        token = first_token(tokens) if tokens else ""
        return HostAccess(token, authority.read_bytes() if authority else None, socket.gethostname())

    return reload_files(read, *(file for file in (tokens, authority) if file))


if __name__ == "__main__":
    sys.exit(main())
