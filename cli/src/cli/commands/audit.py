"""`daggers audit`: refused calls, reads of tenants' records, failed logins."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.instants import instant
from cli.framework.session import Session, command
from cli.output.json_views.answers import audit_kind
from cli.output.json_views.audit import kind_of, record_document
from cli.output.printer import Printer
from daggerclient.times import iso

app = group()
FLAGS = {"team": "--team", "principal": "--principal", "kinds": "--kind"}


class Kind(StrEnum):
    """Kinds of audit records."""

    REFUSED = "refused"
    UNAUTHENTICATED = "unauthenticated"
    READ = "read"
    PREVIEW = "preview"
    SINK_TEST = "sink-test"
    CHECK = "check"


@command(app, "audit", example="daggers audit --team pricing --kind refused --since 1d")
def audit(
    session: Session,
    principal: Annotated[
        str,
        typer.Option(help="Only calls of this principal: user:NAME, account:NAME, a name of the token file."),
    ] = "",
    team: Annotated[
        str,
        typer.Option(help="Only records about this team, for its owners; administrators read all."),
    ] = "",
    kinds: Annotated[
        list[Kind] | None, typer.Option("--kind", help="Only records of this kind; may be repeated.")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="Only records since then: 30m, 2h, 1d ago, or an instant.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="WHEN", help="Only records before then.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most this many, the newest.")] = 100,
) -> None:
    """Show who called, what, and whether the call was allowed."""
    now = datetime.now(UTC)
    request = gateway_pb2.ListAuditRecordsRequest(
        principal=principal,
        team=team,
        kinds=[kind_of(kind_name) for kind_name in kinds or ()],
        page_size=min(limit, 1_000),
    )
    if since:
        request.since.FromDatetime(instant("--since", since, now))
    if until:
        request.until.FromDatetime(instant("--until", until, now))
    with session.connect(FLAGS) as gateway:
        records = list(islice(find_records(gateway, request), limit))
    session.out.show([record_document(record) for record in records], lambda _: table(session.out, records))


def find_records(
    gateway: Gateway, request: gateway_pb2.ListAuditRecordsRequest
) -> Iterator[gateway_pb2.AuditRecord]:
    """Yield records of the audit, newest first."""
    for page in gateway.pages(gateway.audit.ListAuditRecords, request):
        yield from page.records


def table(out: Printer, records: Sequence[gateway_pb2.AuditRecord]) -> None:
    """Print records as a table."""
    rows = [
        (
            iso(record.time)[:19] + "Z",
            record.call.principal or f"({record.call.peer or 'nobody'})",
            audit_kind(record.call),
            record.call.method.rpartition("/")[2],
            record.call.subject or "-",
            outcome(record),
        )
        for record in records
    ]
    out.table(
        ("TIME", "PRINCIPAL", "KIND", "CALL", "ABOUT", "WHAT"), rows, empty="the audit has no such record"
    )


def outcome(record: gateway_pb2.AuditRecord) -> str:
    """Describe why a call was refused, or which sensitive fields it read."""
    call = record.call
    times = f" ({call.calls} calls)" if call.calls > 1 else ""
    if not call.allowed:
        return f"{call.reason}: {call.detail}{times}"
    return f"with {', '.join(call.sensitive)}" if call.sensitive else call.reason
