"""Options that select records of the quarantine, for all of its commands."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from daggers.v1 import events_pb2, gateway_pb2

from cli.framework.gateway import Gateway
from cli.framework.instants import instant
from daggerspec.setaside import ID_CHARS

Ids = Annotated[
    list[str] | None, typer.Option("--id", help="Id of a record, or its first characters; may be repeated.")
]
Reasons = Annotated[
    list[str] | None, typer.Option("--reason", help="Only records with this reason; may be repeated.")
]
Sinks = Annotated[
    list[str] | None, typer.Option("--sink", help="Only rows that this sink refused; may be repeated.")
]
Stage = Annotated[
    str, typer.Option("--stage", help="Only records of this stage: decode, event_time or sink.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", help="Only records quarantined since then: 2h, 1d ago, or an instant.", metavar="TIME"
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until", help="Only records quarantined before then: 2h, 1d ago, or an instant.", metavar="TIME"
    ),
]


def selection(
    ids: Sequence[str] | None,
    reasons: Sequence[str] | None,
    sinks: Sequence[str] | None,
    stage: str,
    since: str | None,
    until: str | None,
) -> events_pb2.QuarantineSelection:
    """Build the selection of these options. Raises: MisusedError for an invalid instant."""
    now = datetime.now(UTC)
    selected = events_pb2.QuarantineSelection(ids=ids, reasons=reasons, sinks=sinks, stage=stage)
    if since:
        selected.since.FromDatetime(instant("--since", since, now))
    if until:
        selected.until.FromDatetime(instant("--until", until, now))
    return selected


def with_whole_ids(
    gateway: Gateway, dagger: str, selected: events_pb2.QuarantineSelection
) -> events_pb2.QuarantineSelection:
    """Complete the ids of a selection that are only prefixes, as `quarantine list` prints them.

    Raises: RefusedError where no record, or several, have an id with such a prefix.
    """
    for number, id_ in enumerate(selected.ids):
        if len(id_) < ID_CHARS:
            request = gateway_pb2.GetQuarantinedRequest(dagger=dagger, id=id_)
            selected.ids[number] = gateway.call(gateway.quarantine.GetQuarantined, request).record.id
    return selected
