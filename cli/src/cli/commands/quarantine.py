"""`daggers quarantine`: records that were set aside."""

from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.arguments import Name
from cli.group import group
from cli.json_views.quarantine import quarantined as view
from cli.session import Session, command

quarantine = group("Records that were set aside.")


@command(quarantine, "list", example="daggers quarantine list completed_bookings")
def list_quarantined(
    session: Session,
    name: Name,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 100,
) -> None:
    """The newest records that the dagger has set aside, newest first, with what could be read of them."""
    request = gateway_pb2.ListQuarantinedRequest(dagger=name, page_size=limit)
    with session.connect({"dagger": "NAME"}) as gateway:
        answer = gateway.call(gateway.quarantine.ListQuarantined, request)
    documents = [view(record) for record in answer.records]
    cells = [
        (f"{r.topic}/{r.partition}@{r.offset}", r.reason, r.detail, r.decoded_prefix or "-")
        for r in answer.records
    ]
    session.out.show(
        documents,
        lambda _: session.out.table(
            ("RECORD", "REASON", "DETAIL", "DECODED PREFIX"), cells, empty="nothing was set aside"
        ),
    )
