"""`python -m telemetry`: reads the settings, puts the parts together, serves until SIGTERM.

It has the shape and the exit codes of `chassis.service`. Started again, it loses nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from chassis import service
from eventlog import LogError
from eventlog.admin import await_topics
from eventlog.topics import ALERTS, CONTROL, HEARTBEATS, TOPICS, log_topic
from kafkaclient import Connection
from telemetry import points
from telemetry.projector import Database, project
from telemetry.settings import TelemetrySettings


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    return service.run("telemetry", TelemetrySettings, argv, read=_read, serve=_serve, away=(LogError,))


def _read(settings: TelemetrySettings) -> tuple[Connection, Database]:
    """Build the connection and the database of these settings. Raises: ValueError."""
    token = _read_token(settings.influx_token_file)
    database = Database(settings.influx_url, settings.influx_org, settings.influx_bucket, token)
    return settings.kafka(), database


async def _serve(parts: tuple[Connection, Database], stop: asyncio.Event) -> None:
    await serve(*parts, stop)


async def serve(kafka: Connection, database: Database, stop: asyncio.Event) -> None:
    """Write points until `stop` is set. Raises: LogError."""
    if not await await_topics(kafka, stop, (*TOPICS, log_topic(ALERTS))):
        return
    stopping = asyncio.create_task(stop.wait())
    projections = {HEARTBEATS: points.of_beat, CONTROL: points.of_event, ALERTS: points.of_alert}
    projecting = asyncio.create_task(project(kafka, projections, database.writer()))
    await asyncio.wait([stopping, projecting], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if projecting.done():
        projecting.result()
    projecting.cancel()
    await asyncio.gather(projecting, return_exceptions=True)


def _read_token(file: Path | None) -> str:
    """Read the token; empty without a file. Raises: ValueError."""
    try:
        return file.read_text(encoding="utf-8").strip() if file else ""
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"the token file {file} cannot be read") from None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
