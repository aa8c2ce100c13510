"""Texts of alerts for a person, and the open alerts that a gateway has."""

from collections.abc import Iterator, Sequence

from daggers.v1 import alerts_pb2, gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from chassis.durations import format_measure
from cli.framework.gateway import Gateway
from cli.output.printer import Printer
from daggerclient.times import iso
from daggerspec.alertrules import format_key

State = gateway_pb2.AlertDelivery.State


def table(out: Printer, selected: Sequence[gateway_pb2.Alert], *, resolved: bool) -> None:
    """Print alerts as a table: open ones with the name of each incident, where resolved ones are among them
    with the time when each was over.
    """
    columns = (
        *(() if resolved else ("INCIDENT",)),
        *("DAGGER", "CONDITION", "SINCE"),
        *(("UNTIL",) if resolved else ()),
        *("WHAT", "NOTIFIED"),
    )
    rows = [
        (
            *(() if resolved else (alert.id,)),
            alert.dagger,
            condition(alert),
            second(alert.since),
            *((second(alert.until) if alert.HasField("until") else "open",) if resolved else ()),
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
    """Describe what holds an alert back, who looks after it, and its deliveries to its receivers."""
    parts = [", ".join(map(_delivery, alert.deliveries)) or "nobody"]
    if alert.cause:
        parts.append(f"held back by its cause {alert.cause}")
    if alert.holds_back:
        parts.append(f"holds back {alert.holds_back} alert{'' if alert.holds_back == 1 else 's'}")
    if alert.HasField("acknowledgement"):
        parts.insert(0, _describe_acknowledgement(alert.acknowledgement))
    if alert.HasField("silence"):
        parts.insert(0, format_silence(alert.silence))
    return "; ".join(parts)


def format_silence(silence: alerts_pb2.AlertSilence) -> str:
    """Describe until when a silence holds an alert back, by whom and why."""
    return f"silenced until {second(silence.end)} by {silence.author or '?'}: {silence.reason}"


def _describe_acknowledgement(given: alerts_pb2.AlertAcknowledgement) -> str:
    until = f" until {second(given.until)}" if given.HasField("until") else ""
    comment = f": {given.comment}" if given.comment else ""
    return f"acknowledged{until} by {given.author or '?'}{comment}"


def sentence(alert: gateway_pb2.Alert) -> str:
    """Format an open alert as a sentence on its dagger's page."""
    return f"{condition(alert)} since {second(alert.since)}: {summary(alert)}; notified: {deliveries(alert)}"


def line(alert: gateway_pb2.Alert) -> str:
    """Format an alert as a line."""
    over = alert.HasField("until")
    when = second(alert.until if over else alert.since)
    turn = "RESOLVED" if over else "OPEN"
    return (
        f"{alert.sequence:>6}  {when}  {alert.dagger:<24}  {condition(alert):<15}  {turn:<8}"
        f"  {summary(alert)}; notified: {deliveries(alert)}"
    )


def _delivery(delivery: gateway_pb2.AlertDelivery) -> str:
    if delivery.state == State.STATE_SENT:
        return delivery.receiver
    if delivery.state == State.STATE_WITHHELD:
        return f"{delivery.receiver} withheld"
    if delivery.state == State.STATE_FAILED:
        return f"{delivery.receiver} failed: {delivery.reason}"
    return f"{delivery.receiver} {f'tried again: {delivery.reason}' if delivery.reason else 'due'}"


def second(time: Timestamp) -> str:
    """Format an instant, in UTC and to the second."""
    return iso(Timestamp(seconds=time.seconds))


def find_alerts(gateway: Gateway, name: str, *, resolved: bool = False) -> Iterator[gateway_pb2.Alert]:
    """Yield the open alerts of a dagger; with `resolved` also those that are over."""
    request = gateway_pb2.ListAlertsRequest(dagger=name, include_resolved=resolved)
    for page in gateway.pages(gateway.alerts.ListAlerts, request):
        yield from page.alerts
