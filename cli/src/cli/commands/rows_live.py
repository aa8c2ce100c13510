"""The rows of a watch on a terminal."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from daggers.v1 import gateway_pb2
from rich.live import Live

from cli.errors import RefusedError, UnreachableError
from cli.framework.gateway import Gateway
from cli.framework.row_reads import Look, remember
from cli.framework.session import Session
from cli.output.sparkline import Series, table
from daggerspec.row import Row

NO_TIME = datetime.min.replace(tzinfo=UTC)


def show_live(session: Session, gateway: Gateway, name: str, looks: Iterator[Look]) -> None:
    """Show the rows of a watch on a terminal, with a sparkline for each series."""
    seen: dict[tuple[object, ...], Row] = {}
    phase = ""
    with Live(console=session.out.console, screen=False, auto_refresh=False) as live:
        for look in looks:
            for row in look.rows:
                remember(seen, row.identity, row)
            newest_first = sorted(seen.values(), key=lambda row: row.time or NO_TIME, reverse=True)
            series = Series.collect(newest_first)
            with suppress(UnreachableError, RefusedError):  # the looks end by themselves
                phase = gateway_pb2.Phase.Name(gateway.get(name).phase)
            live.update(table(f"{name}  {phase}", series, session.out.console.height - 6), refresh=True)
