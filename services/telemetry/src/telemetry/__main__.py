"""`python -m telemetry`: reads the settings, puts the parts together, serves until SIGTERM.

Exit codes: 0 told to stop, 2 bad settings, 69 no Kafka or no database: start it again, it loses nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from chassis import logging, settings, shutdown
from eventlog import LogError
from eventlog.admin import ensure_topics
from eventlog.topics import ALERTS, CONTROL, HEARTBEATS, TOPICS, forever
from telemetry import points
from telemetry.projector import Database, DatabaseUnavailable, project
from telemetry.settings import TelemetrySettings

_UNAVAILABLE = 69


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT; answers the exit code."""
    told = settings.load(TelemetrySettings, argv, prog="python -m telemetry")
    try:
        token = _token(told.influx_token_file)
    except (OSError, UnicodeDecodeError):
        sys.stderr.write(f"python -m telemetry: the token file {told.influx_token_file} cannot be read\n")
        return 2
    logging.configure("telemetry")
    database = Database(told.influx_url, told.influx_org, told.influx_bucket, token)
    try:
        asyncio.run(serve(told.kafka_bootstrap_servers, database))
    except (LogError, DatabaseUnavailable) as error:
        logging.logger().error("ended", error=type(error).__name__, detail=str(error))
        return _UNAVAILABLE
    return 0


async def serve(kafka: str, database: Database) -> None:
    """Serve until a signal comes. Raises: LogError, DatabaseUnavailable."""
    asked = asyncio.create_task(shutdown.on_signal().wait())
    await ensure_topics(kafka, (*TOPICS, forever(ALERTS)))
    projections = {HEARTBEATS: points.of_beat, CONTROL: points.of_event, ALERTS: points.of_alert}
    projecting = asyncio.create_task(project(kafka, projections, database.writer()))
    await asyncio.wait([asked, projecting], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if projecting.done():
        projecting.result()
    projecting.cancel()
    await asyncio.gather(projecting, return_exceptions=True)


def _token(file: Path | None) -> str:
    return file.read_text(encoding="utf-8").strip() if file else ""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
