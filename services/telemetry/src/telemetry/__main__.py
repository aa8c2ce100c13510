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
from eventlog.topics import ALERTS, CONTROL, HEARTBEATS, TOPICS, forever
from kafkaclient import Connection
from telemetry import points
from telemetry.projector import Database, project
from telemetry.settings import TelemetrySettings


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT; answers the exit code."""
    return service.run("telemetry", TelemetrySettings, argv, read=_read, serve=_serve, away=(LogError,))


def _read(told: TelemetrySettings) -> tuple[Connection, Database]:
    """Raises: ValueError."""
    return told.kafka(), Database(
        told.influx_url, told.influx_org, told.influx_bucket, _token(told.influx_token_file)
    )


async def _serve(parts: tuple[Connection, Database], stop: asyncio.Event) -> None:
    await serve(*parts, stop)


async def serve(kafka: Connection, database: Database, stop: asyncio.Event) -> None:
    """Serve until it is asked to stop. Raises: LogError."""
    if not await await_topics(kafka, stop, (*TOPICS, forever(ALERTS))):
        return
    asked = asyncio.create_task(stop.wait())
    projections = {HEARTBEATS: points.of_beat, CONTROL: points.of_event, ALERTS: points.of_alert}
    projecting = asyncio.create_task(project(kafka, projections, database.writer()))
    await asyncio.wait([asked, projecting], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if projecting.done():
        projecting.result()
    projecting.cancel()
    await asyncio.gather(projecting, return_exceptions=True)


def _token(file: Path | None) -> str:
    """Raises: ValueError."""
    try:
        return file.read_text(encoding="utf-8").strip() if file else ""
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"the token file {file} cannot be read") from None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
