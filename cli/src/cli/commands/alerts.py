"""`daggers alerts`: open alerts of daggers, and their notifications."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from daggers.v1 import alerts_pb2, gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from chassis.durations import format_measure
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.framework.watch_resumption import by_sequence, resume
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from daggerclient.times import iso
from daggerspec.alertrules import format_key

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
        selected = list(find_alerts(gateway, name, resolved=resolved))
    documents = [to_json(alert) for alert in selected]
    session.out.show(documents, lambda _: table(session.out, selected, resolved=resolved))


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
        session.out.stream(watch_alerts(gateway, name, since), line, to_json)


def table(out: Printer, selected: Sequence[gateway_pb2.Alert], *, resolved: bool) -> None:
    """Print alerts as a table; with the time when each was over, where resolved ones are among them."""
    columns = ("DAGGER", "CONDITION", "SINCE", *(("UNTIL",) if resolved else ()), "WHAT", "NOTIFIED")
    rows = [
        (
            alert.dagger,
            condition(alert),
            _second(alert.since),
            *((_second(alert.until) if alert.HasField("until") else "open",) if resolved else ()),
            summary(alert) + ("" if alert.HasField("until") or not alert.next else f"; next: {alert.next}"),
            deliveries(alert),
        )
        for alert in selected
    ]
    out.table(columns, rows, empty="no alert has fired" if resolved else "no alert is open")


def condition(alert: gateway_pb2.Alert) -> str:
    """Name the condition of an alert in a word; of a rule on rows, the rule and its key."""
    if alert.rule:
        return f"{alert.rule} {format_key(alert.key)}".rstrip()
    return alerts_pb2.AlertCondition.Name(alert.condition).removeprefix("ALERT_CONDITION_")


def summary(alert: gateway_pb2.Alert) -> str:
    """Describe the problem and its limit, or the resolution of an alert that is over."""
    if alert.HasField("until"):
        return f"{alert.resolution}; it was: {alert.summary}"
    limit = f" (limit {format_measure(alert.limit, alert.unit)})" if alert.HasField("limit") else ""
    return f"{alert.summary}{limit}"


def deliveries(alert: gateway_pb2.Alert) -> str:
    """Describe the deliveries of an alert to its receivers."""
    return ", ".join(map(_delivery, alert.deliveries)) or "nobody"


def sentence(alert: gateway_pb2.Alert) -> str:
    """Format an open alert as a sentence on its dagger's page."""
    return f"{condition(alert)} since {_second(alert.since)}: {summary(alert)}; notified: {deliveries(alert)}"


def line(alert: gateway_pb2.Alert) -> str:
    """Format an alert as a line."""
    over = alert.HasField("until")
    when = _second(alert.until if over else alert.since)
    turn = "RESOLVED" if over else "OPEN"
    return (
        f"{alert.sequence:>6}  {when}  {alert.dagger:<24}  {condition(alert):<15}  {turn:<8}"
        f"  {summary(alert)}; notified: {deliveries(alert)}"
    )


def watch_alerts(gateway: Gateway, name: str, since: int | None) -> Iterator[gateway_pb2.Alert]:
    """Yield alerts as they change after a sequence, without end; without a sequence open ones come first."""

    def steps(after: int | None) -> Iterator[gateway_pb2.WatchAlertsResponse]:
        request = gateway_pb2.WatchAlertsRequest(dagger=name, since_sequence=after)
        return gateway.stream(gateway.alerts.WatchAlerts, request, deadline_s=None)

    for step in resume(steps, since, by_sequence):
        if step.HasField("alert"):  # other steps only tell how far the watch is
            yield step.alert


def _delivery(delivery: gateway_pb2.AlertDelivery) -> str:
    if delivery.state == State.STATE_SENT:
        return delivery.receiver
    if delivery.state == State.STATE_FAILED:
        return f"{delivery.receiver} failed: {delivery.reason}"
    return f"{delivery.receiver} {f'tried again: {delivery.reason}' if delivery.reason else 'due'}"


def _second(time: Timestamp) -> str:
    return iso(Timestamp(seconds=time.seconds))


def find_alerts(gateway: Gateway, name: str, *, resolved: bool = False) -> Iterator[gateway_pb2.Alert]:
    """Yield the open alerts of a dagger; with `resolved` also those that are over."""
    request = gateway_pb2.ListAlertsRequest(dagger=name, include_resolved=resolved)
    for page in gateway.pages(gateway.alerts.ListAlerts, request):
        yield from page.alerts
