"""`daggers logs`: what a driver printed."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.framework.arguments import Name
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.instants import instant
from cli.framework.session import Session, command
from cli.framework.watch_resumption import resume
from cli.output.json_views.answers import to_json
from cli.output.vitals import complaint

LOG_S = 120.0
FLAGS = {"request.lines": "--lines", "request.since": "--since", "request.generation": "--generation"}
app = group()


@command(app, "logs", example="daggers logs completed_bookings --follow")
def logs(
    session: Session,
    name: Name,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log as it is written.")] = False,
    lines: Annotated[
        int | None,
        typer.Option(min=0, help="At most this many of the last lines; default: 200, or all with --since."),
    ] = None,
    since: Annotated[
        str,
        typer.Option(metavar="WHEN", help="Only lines of the last 10m, 2h, 1d, or since 2026-01-31T12:00Z."),
    ] = "",
    traces: Annotated[bool, typer.Option("--traces", help="Show stack traces, too.")] = False,
    generation: Annotated[
        int,
        typer.Option(
            min=0,
            help="Launch to read, by its generation in `daggers get`; default: the newest.",
            show_default=False,
        ),
    ] = 0,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Read the launch before: what came before the restart.")
    ] = False,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Read the log of quarantine replays, in place of that of drivers."),
    ] = False,
) -> None:
    """Print the reason first while the dagger does not run, or has not run for long.

    Logs are kept for a day after a delete.
    """
    request = gateway_pb2.ReadLogRequest(
        name=name, lines=lines, traces=traces, generation=generation, previous=previous, replay=replay
    )
    if since:
        request.since.FromDatetime(instant("--since", since, datetime.now(UTC)))
    with session.connect(FLAGS) as gateway:
        if follow:
            session.out.stream(_follow(session, gateway, request), str, str)
            return
        last = list(gateway.stream(gateway.daggers.ReadLog, request, deadline_s=LOG_S))
    newest = [line for step in last for line in step.lines]
    warned = [to_json(warning) for warning in last[0].warnings]
    _explain(session, last[0])
    document = {"name": name, "log": last[0].path, "warnings": warned, "lines": newest}
    session.out.show(document, lambda out: out.lines(newest))


def _explain(session: Session, step: gateway_pb2.ReadLogResponse) -> None:
    """Print the dagger's warnings before its log: its reader looks for their cause."""
    for warning in step.warnings:
        session.out.note(complaint(warning))


def _follow(session: Session, gateway: Gateway, request: gateway_pb2.ReadLogRequest) -> Iterator[str]:
    """Yield the lines of a log as they are written; resume where the stream broke.

    Notes on stderr tell where the next driver's lines begin, and that the dagger was deleted.
    """

    def steps(position: str | None) -> Iterator[gateway_pb2.ReadLogResponse]:
        request.follow, request.position = True, position or ""
        return gateway.stream(gateway.daggers.ReadLog, request, deadline_s=None)

    path = ""
    for step in resume(steps, None, lambda step: step.position):
        _explain(session, step)
        request.create_sequence = step.create_sequence
        if step.gap:
            session.out.note("some lines are missing here: the driver's log was moved away")
        if path and step.path not in ("", path):
            who = "attempt" if request.replay else "driver"
            session.out.note(f"the next {who} writes to {step.path} on {step.host}")
        path = step.path or path
        yield from step.lines
    session.out.note(f"{request.name} was deleted")
