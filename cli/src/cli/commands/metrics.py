"""`daggers metrics`: what a dagger did in each minute of the last day."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.framework.arguments import Name
from cli.framework.group import group
from cli.framework.instants import instant
from cli.framework.session import Session, command
from cli.output import metrics_text
from cli.output.printer import Printer
from cli.output.team_usage import COST_COLUMNS, COST_WIDE, costs

FLAGS = {"name": "NAME", "since": "--since"}
app = group()


@command(app, "metrics", example="daggers metrics completed_bookings --since 2h")
def metrics(
    session: Session,
    name: Name,
    since: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="Only minutes of the last 10m, 2h, or since 2026-01-31T12:00Z; default: the last 24 h.",
        ),
    ] = "",
) -> None:
    """Show records, rows, lag, late rows, quarantined records and freshness by minute, and the cost of a day.

    List every minute with -o json; null is not known, and the last one may still go on.
    """
    now = datetime.now(UTC)
    request = gateway_pb2.ReadMetricsRequest(name=name)
    if since:
        request.since.FromDatetime(instant("--since", since, now))
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.daggers.ReadMetrics, request)

    def text(out: Printer) -> None:
        rows = metrics_text.summarize(answer, now)
        out.table(metrics_text.COLUMNS, rows, empty=f"nothing is known of {name} in these minutes")
        if answer.cost.HasField("age"):
            out.line("")
            out.table(COST_WIDE if out.wide else COST_COLUMNS, costs([answer.cost], wide=out.wide), empty="")

    session.out.show(metrics_text.document(name, answer), text)
