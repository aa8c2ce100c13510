"""Which records of the quarantine a command means: the options that all of its commands share."""

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
    """The selection that these say. Raises: MisusedError for what is no instant."""
    now = datetime.now(UTC)
    made = events_pb2.QuarantineSelection(ids=ids, reasons=reasons, sinks=sinks, stage=stage)
    if since:
        made.since.FromDatetime(instant("--since", since, now))
    if until:
        made.until.FromDatetime(instant("--until", until, now))
    return made


def with_whole_ids(
    gateway: Gateway, dagger: str, made: events_pb2.QuarantineSelection
) -> events_pb2.QuarantineSelection:
    """The selection, its ids whole where it says how they begin, as `quarantine list` does.

    Raises: RefusedError where no record or several have an id that begins so.
    """
    for number, said in enumerate(made.ids):
        if len(said) < ID_CHARS:
            request = gateway_pb2.GetQuarantinedRequest(dagger=dagger, id=said)
            made.ids[number] = gateway.call(gateway.quarantine.GetQuarantined, request).record.id
    return made
