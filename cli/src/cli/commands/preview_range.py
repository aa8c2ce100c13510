"""Options that say which records a preview reads."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.errors import MisusedError
from cli.framework.instants import instant, span

PREVIEW_S = 600.0
"""Longest time of a call, in seconds: others may be in front of it."""
Last = Annotated[
    str, typer.Option("--last", metavar="SPAN", help="Read records of the last 5m, 2h, up to 7d.")
]
LastRecords = Annotated[
    int | None,
    typer.Option("--last-records", min=1, metavar="N", help="Read about the newest N records."),
]
From = Annotated[
    str,
    typer.Option(
        "--from", metavar="WHEN", help="Read records from 2026-01-31T12:00:00Z, or from 2h before now, …"
    ),
]
To = Annotated[str, typer.Option("--to", metavar="WHEN", help="… to here; default: now.")]
_RANGES = ("--last", "--last-records", "--from", "--live")


def build_range(
    last: str, last_records: int | None, begin: str, end: str, live: str = ""
) -> gateway_pb2.PreviewRange | None:
    """Build the range to read; None: the gateway's default. Raises: MisusedError."""
    given = [name for name, value in zip(_RANGES, (last, last_records, begin, live), strict=True) if value]
    if len(given) > 1:
        raise MisusedError(f"{' and '.join(given)}: name one of them")
    if end and not begin:
        raise MisusedError("--to needs --from")
    range_ = gateway_pb2.PreviewRange()
    now = datetime.now(UTC)
    if last:
        range_.last.FromTimedelta(span("--last", last))
    elif live:
        range_.live.FromTimedelta(span("--live", live))
    elif last_records:
        range_.last_records = last_records
    elif begin:
        getattr(range_.between, "from").FromDatetime(instant("--from", begin, now))
        range_.between.to.FromDatetime(instant("--to", end, now) if end else now)
    else:
        return None
    return range_
