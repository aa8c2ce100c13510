"""`daggers alerts route`: who would be told of an alert, why, and when."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from daggers.v1 import alerts_pb2, gateway_pb2

from cli.commands.alert_text import format_silence, second
from cli.errors import MisusedError
from cli.framework.instants import ahead
from cli.framework.session import Session
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from daggerclient.times import duration

FLAGS = {"dagger": "--for", "time": "--at"}
_LABELS = ("condition", "severity", "domain", "host", "cluster", "store", "rule")


def explain_route(
    session: Session,
    name: Annotated[str, typer.Option("--for", metavar="NAME", help="Dagger of the alert.")],
    labels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LABEL=VALUE...",
            help="Labels: condition, severity, domain, host, cluster, store, rule; any other is a column of a"
            " rule's key.",
        ),
    ] = None,
    instant: Annotated[
        str, typer.Option("--at", help="When it fires: in 30m, 2h, 1d, or an instant; default: now.")
    ] = "",
    file: Annotated[str, typer.Option("--file", "-f", help="Routes to try in place of the team's.")] = "",
) -> None:
    """Show who would be notified of an alert, by which route, in which group, and when; notify nobody."""
    request = gateway_pb2.ExplainRouteRequest(dagger=name, labels=_read_labels(labels or []))
    if instant:
        request.time.FromDatetime(ahead("--at", instant, datetime.now(UTC)))
    if file:
        request.routes.CopyFrom(_read_routes(file))
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.alerts.ExplainRoute, request)
    session.out.show(to_json(answer), lambda out: _show(out, answer))


def _read_labels(texts: list[str]) -> dict[str, str]:
    """Read LABEL=VALUE. Raises: MisusedError."""
    labels = {}
    for text in texts:
        label, equals, value = text.partition("=")
        if not equals or not label:
            raise MisusedError(f"{text}: it must be LABEL=VALUE")
        is_label = label in _LABELS or label.startswith("key_")
        labels[label if is_label else f"key_{label}"] = value.lower() if label == "condition" else value
    return labels


def _read_routes(path: str) -> alerts_pb2.AlertRoute:
    from cli.files.dagger_file import read_file  # what reads files takes long to load
    from cli.framework.gateway import in_words
    from daggerclient import InvalidFileError, routesfile

    try:
        return routesfile.parse(read_file(Path(path)), path).routes
    except InvalidFileError as error:
        raise in_words(error) from error


def _show(out: Printer, answer: gateway_pb2.ExplainRouteResponse) -> None:
    rows = []
    for route in answer.routes:
        to = route.destination
        group = " ".join(f"{label}={value or '-'}" for label, value in sorted(route.group.items())) or "all"
        rows.append(
            (
                ", ".join(to.receivers),
                " ".join(to.why) or "every alert",
                group,
                second(route.first_notice) if route.HasField("first_notice") else "in no window",
                duration(to.repeat_interval) if to.repeat_interval.ToNanoseconds() else "never",
                f"{', '.join(to.escalate_to)} after {duration(to.escalate_after)}" if to.escalate_to else "-",
            )
        )
    if rows:
        columns = ("RECEIVERS", "BECAUSE", "GROUP", "FIRST", "REPEATED EVERY", "ESCALATED TO")
        out.table(columns, rows, empty="")
    else:
        out.line(_describe_others(answer))
    if answer.HasField("silence"):
        out.line(format_silence(answer.silence))


def _describe_others(answer: gateway_pb2.ExplainRouteResponse) -> str:
    """Say who is told where no route names anybody."""
    named = ", ".join(answer.receivers)
    if answer.platform:
        own = f"{named} and those" if named else "those"
        return f"no receiver of team {answer.team} is told, but at once the platform's: {own} of its monitors"
    return f"team {answer.team} has no routes: at once, {named}"
