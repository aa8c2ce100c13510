"""`daggers alerts`: what is wrong with daggers, and who was told of it."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from daggers.v1 import alerts_pb2, gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from chassis.durations import measured
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.framework.watch_resumption import by_sequence, resumed
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from daggerclient.times import iso

alerts = group()
FLAGS = {"dagger": "NAME", "since_sequence": "--since"}
Dagger = Annotated[str, typer.Argument(metavar="NAME", help="Only alerts of this dagger.")]
State = gateway_pb2.AlertDelivery.State


@command(alerts, "list", example="daggers alerts list completed_bookings --all")
def list_alerts(
    session: Session,
    name: Dagger = "",
    resolved: Annotated[
        bool, typer.Option("--all", help="Show resolved alerts, too: the newest of each condition.")
    ] = False,
) -> None:
    """List the open alerts, by dagger."""
    with session.connect(FLAGS) as gateway:
        shown = list(listed(gateway, name, resolved=resolved))
    documents = [to_json(alert) for alert in shown]
    session.out.show(documents, lambda _: table(session.out, shown, resolved=resolved))


@command(alerts, "watch", example="daggers alerts watch completed_bookings")
def watch(
    session: Session,
    name: Dagger = "",
    since: Annotated[
        int | None,
        typer.Option(min=-1, help="Only changes after this sequence; default: the open alerts first."),
    ] = None,
) -> None:
    """Show alerts as they fire, notify and resolve, open ones first. Run until Ctrl-C."""
    with session.connect(FLAGS) as gateway:
        session.out.stream(watched(gateway, name, since), line, to_json)


def table(out: Printer, shown: Sequence[gateway_pb2.Alert], *, resolved: bool) -> None:
    """Print alerts; with when they were over, if those are among them."""
    columns = ("DAGGER", "CONDITION", "SINCE", *(("UNTIL",) if resolved else ()), "WHAT", "NOTIFIED")
    rows = [
        (
            alert.dagger,
            condition(alert),
            _second(alert.since),
            *((_second(alert.until) if alert.HasField("until") else "open",) if resolved else ()),
            what(alert) + ("" if alert.HasField("until") or not alert.next else f"; next: {alert.next}"),
            told(alert),
        )
        for alert in shown
    ]
    out.table(columns, rows, empty="no alert has fired" if resolved else "no alert is open")


def condition(alert: gateway_pb2.Alert) -> str:
    """What is wrong, in a word."""
    return alerts_pb2.AlertCondition.Name(alert.condition).removeprefix("ALERT_CONDITION_")


def what(alert: gateway_pb2.Alert) -> str:
    """What is wrong, and what would be right; or why it is over."""
    if alert.HasField("until"):
        return f"{alert.resolution}; it was: {alert.summary}"
    limit = f" (limit {measured(alert.limit, alert.unit)})" if alert.HasField("limit") else ""
    return f"{alert.summary}{limit}"


def told(alert: gateway_pb2.Alert) -> str:
    """How far each receiver has been told."""
    return ", ".join(map(_told, alert.deliveries)) or "nobody"


def sentence(alert: gateway_pb2.Alert) -> str:
    """An open alert, beside its dagger."""
    return f"{condition(alert)} since {_second(alert.since)}: {what(alert)}; notified: {told(alert)}"


def line(alert: gateway_pb2.Alert) -> str:
    """An alert on a line, as it is now."""
    over = alert.HasField("until")
    when = _second(alert.until if over else alert.since)
    turn = "RESOLVED" if over else "OPEN"
    return (
        f"{alert.sequence:>6}  {when}  {alert.dagger:<24}  {condition(alert):<15}  {turn:<8}"
        f"  {what(alert)}; notified: {told(alert)}"
    )


def watched(gateway: Gateway, name: str, since: int | None) -> Iterator[gateway_pb2.Alert]:
    """Alerts as they change behind a sequence, for ever; without one those that are open come first."""

    def steps(after: int | None) -> Iterator[gateway_pb2.WatchAlertsResponse]:
        request = gateway_pb2.WatchAlertsRequest(dagger=name, since_sequence=after)
        return gateway.stream(gateway.alerts.WatchAlerts, request, deadline_s=None)

    for step in resumed(steps, since, by_sequence):
        if step.HasField("alert"):  # other steps only tell how far the watch is
            yield step.alert


def _told(delivery: gateway_pb2.AlertDelivery) -> str:
    if delivery.state == State.STATE_SENT:
        return delivery.receiver
    if delivery.state == State.STATE_FAILED:
        return f"{delivery.receiver} failed: {delivery.reason}"
    return f"{delivery.receiver} {f'tried again: {delivery.reason}' if delivery.reason else 'due'}"


def _second(time: Timestamp) -> str:
    return iso(Timestamp(seconds=time.seconds))


def listed(gateway: Gateway, name: str, *, resolved: bool = False) -> Iterator[gateway_pb2.Alert]:
    """The alerts of a dagger that are open; with `resolved` also those that are over."""
    request = gateway_pb2.ListAlertsRequest(dagger=name, include_resolved=resolved)
    for page in gateway.pages(gateway.alerts.ListAlerts, request):
        yield from page.alerts
