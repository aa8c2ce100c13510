"""`python -m api_gateway`: reads the settings, puts the parts together, serves until SIGTERM.

Exit codes: 0 drained, 2 bad settings, 69 no Kafka, no database or no address to serve on, 70 our fault.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import grpc
from sqlalchemy.exc import SQLAlchemyError

from api_gateway.hosts import HostAccess
from api_gateway.projection import Projection
from api_gateway.quarantine import KafkaQuarantine
from api_gateway.server import CannotBind, Door, serving
from api_gateway.settings import GatewaySettings
from chassis import logging, settings, shutdown
from chassis.collector import relieve
from chassis.interceptors import first_token, read_tokens
from eventlog import LogError, topics
from eventlog.admin import ensure_topics
from eventlog.kafka import KafkaLog

_UNAVAILABLE = 69
_INTERNAL = 70
# Objects: more than what the calls under way hold.
_ALIVE = 20_000


def main() -> int:
    """Serve; answers the exit code."""
    found = settings.load(GatewaySettings, sys.argv[1:], prog="python -m api_gateway")
    logging.configure("api-gateway")
    try:
        door, access = _door(found), _host_access(found)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"python -m api_gateway: {error}\n")
        return 2
    projection = Projection(found.database_url)
    try:
        asyncio.run(_serve(found, projection, door, access))
    except (LogError, CannotBind) as error:
        logging.logger().error("stopped", detail=str(error))
        return _UNAVAILABLE
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()[0]
        detail = f"the database {projection.place} cannot be used: {cause}"
        logging.logger().error("stopped", detail=detail)
        return _UNAVAILABLE
    except Exception:  # noqa: BLE001 - the last place before the process ends
        logging.logger().exception("stopped")
        return _INTERNAL
    return 0


async def _serve(found: GatewaySettings, projection: Projection, door: Door, access: HostAccess) -> None:
    asked = shutdown.on_signal()
    source = f"/api-gateway/{socket.gethostname()}-{os.getpid()}"
    await ensure_topics(found.kafka_bootstrap_servers)
    quarantine = KafkaQuarantine(found.kafka_bootstrap_servers)
    async with (
        KafkaLog(found.kafka_bootstrap_servers, topics.CONTROL) as log,
        serving(
            log,
            projection,
            quarantine.newest,
            door,
            source=source,
            reference_places=found.allowed_references,
            away=lambda: log.away,
            host_access=access,
        ) as gateway,
    ):
        relieve(_ALIVE)
        host = found.bind.rpartition(":")[0]
        logging.logger().info("serving", address=f"{host}:{gateway.port}", tls=door.credentials is not None)
        stop = asyncio.create_task(asked.wait())
        await asyncio.wait((stop, gateway.failed), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if gateway.failed.done():
            gateway.failed.result()
        logging.logger().info("draining")


def _door(found: GatewaySettings) -> Door:
    """Raises: OSError, ValueError when a file cannot be used."""
    credentials = None
    if found.tls is not None:
        key, certificate = (path.read_bytes() for path in found.tls)
        credentials = grpc.ssl_server_credentials([(key, certificate)])
    tokens = read_tokens(found.token_file) if found.token_file else None
    return Door(found.bind, credentials, tokens, found.drain_s)


def _host_access(found: GatewaySettings) -> HostAccess:
    """Raises: OSError, ValueError when a file cannot be used."""
    token = first_token(found.host_token_file) if found.host_token_file else ""
    return HostAccess(token, found.host_ca_file.read_bytes() if found.host_ca_file else None)


if __name__ == "__main__":
    sys.exit(main())
