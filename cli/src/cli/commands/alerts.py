"""`daggers alerts`: open alerts of daggers, their notifications, and silences that hold these back."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from daggers.v1 import alerts_pb2, gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from chassis.durations import format_measure
from cli.commands.rule_test import try_rules
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.instants import ahead, span
from cli.framework.session import Session, command
from cli.framework.watch_resumption import by_sequence, resume
from cli.output.entries import Entries
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from daggerclient.times import iso
from daggerspec.alertrules import format_key

alerts = group()
FLAGS = {
    "dagger": "NAME",
    "since_sequence": "--since",
    "id": "ID",
    "matchers": "MATCHER",
    "team": "--team",
    "begin": "--begin",
    "duration": "--for",
    "reason": "--reason",
}
Dagger = Annotated[str, typer.Argument(metavar="NAME", help="Only alerts of this dagger.")]
Matchers = Annotated[
    list[str],
    typer.Argument(
        metavar="MATCHER...",
        help="LABEL=VALUE or LABEL!=VALUE, `*` for any characters; all must match. Labels: dagger, condition,"
        " severity, team, domain; of a rule on rows also rule and key_COLUMN.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would follow.")]
State = gateway_pb2.AlertDelivery.State

command(alerts, "test", example="daggers alerts test bookings.yaml --last 2h")(try_rules)


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


@command(
    alerts,
    "silence",
    example='daggers alerts silence dagger=completed_bookings --for 2h --reason "new disk"',
)
def silence(
    session: Session,
    matchers: Matchers,
    for_: Annotated[str, typer.Option("--for", help="How long: 30m, 2h, 1d; 30 days at most.")],
    reason: Annotated[str, typer.Option(help="Reason, for whoever finds the silence at night.")],
    team: Annotated[
        str,
        typer.Option(
            help="Team whose alerts it holds back; default: the one that a matcher names, or whose dagger one"
            " names; otherwise all teams, for administrators."
        ),
    ] = "",
    begin: Annotated[
        str, typer.Option(help="From when on: in 30m, 2h, 1d, or an instant; default: now.")
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Stop notifying anybody of some alerts for a while; those that still fire then are notified at its end.

    Needs the right to edit in the team. Alerts fire and resolve all the same, and `daggers alerts list` shows
    what holds them back. `daggers alerts unsilence` ends it.
    """
    with session.connect(FLAGS) as gateway:
        request = gateway_pb2.CreateSilenceRequest(
            team=team or _find_team(gateway, matchers),
            matchers=matchers,
            reason=reason,
            request_id=uuid.uuid4().hex,
            validate_only=dry_run,
        )
        request.duration.FromTimedelta(span("--for", for_))
        if begin:
            request.begin.FromDatetime(ahead("--begin", begin, datetime.now(UTC)))
        answer = gateway.call(gateway.alerts.CreateSilence, request)
    if not answer.alerts:
        session.out.warn("it matches no open alert; `daggers alerts list` shows those")
    session.out.print_result(to_json(answer), describe_silence(answer, dry_run=dry_run))


@command(alerts, "silences", example="daggers alerts silences --all")
def list_silences(
    session: Session,
    ended: Annotated[bool, typer.Option("--all", help="Show also those that are over, for 30 days.")] = False,
) -> None:
    """List the silences that hold back alerts or will, by their ends."""
    request = gateway_pb2.ListSilencesRequest(include_ended=ended)
    with session.connect(FLAGS) as gateway:
        pages = gateway.pages(gateway.alerts.ListSilences, request)
        listed = [silence for page in pages for silence in page.silences]
    SILENCES.show_all(session.out, listed)


@command(alerts, "unsilence", example="daggers alerts unsilence pricing/1f3c9a0b52")
def unsilence(
    session: Session,
    id_: Annotated[str, typer.Argument(metavar="ID", help="As `daggers alerts silences` shows it.")],
    dry_run: DryRun = False,
) -> None:
    """Stop a silence now; alerts that it holds back and that still fire are notified.

    Needs the right to edit in its team. One that is over stays as it is.
    """
    with session.connect(FLAGS) as gateway:
        request = gateway_pb2.ExpireSilenceRequest(id=id_, validate_only=dry_run)
        answer = gateway.call(gateway.alerts.ExpireSilence, request)
    listed, verb = answer.silence, "would release" if dry_run else "releases"
    text = f"the end of silence {listed.silence.id} {verb} {_count(listed.alerts)}"
    session.out.print_result(to_json(answer), text)


def describe_silence(answer: gateway_pb2.CreateSilenceResponse, *, dry_run: bool) -> str:
    """Format what a new silence holds back as a sentence."""
    silence = answer.silence
    name = "a silence" if dry_run else f"silence {silence.id}"
    whose = f"of team {silence.team}" if silence.team else "of all teams and of the platform"
    return (
        f"{name} {'would hold back' if dry_run else 'holds back'} alerts {whose} with"
        f" {' '.join(silence.matchers)} from {_second(silence.begin)} until {_second(silence.end)};"
        f" it matches {_count(answer.alerts)}"
    )


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
    """Describe what holds an alert back, and its deliveries to its receivers."""
    delivered = ", ".join(map(_delivery, alert.deliveries)) or "nobody"
    if not alert.HasField("silence"):
        return delivered
    silence = alert.silence
    return f"silenced until {_second(silence.end)} by {silence.author or '?'}: {silence.reason}; {delivered}"


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


def _build_silence_row(listed: gateway_pb2.ListedSilence) -> tuple[str, ...]:
    silence = listed.silence
    by = f"{silence.author or '?'}{f', ended by {listed.ended_by}' if listed.ended_by else ''}"
    times = _second(silence.begin), _second(silence.end)
    return (
        *(silence.id, silence.team or "all", " ".join(silence.matchers), str(listed.alerts)),
        *times,
        *(by, silence.reason),
    )


SILENCES = Entries(
    ("ID", "TEAM", "MATCHERS", "OPEN", "FROM", "UNTIL", "BY", "REASON"),
    _build_silence_row,
    "nothing is silenced",
)


def _count(number: int) -> str:
    return f"{number} open alert{'' if number == 1 else 's'}"


def _find_team(gateway: Gateway, matchers: Sequence[str]) -> str:
    """Return the team that a matcher names, or that has the dagger that one names; empty without such."""
    exact = [text for text in matchers if "=" in text and "!=" not in text and "*" not in text]
    named = {label.strip(): value.strip() for label, _, value in (text.partition("=") for text in exact)}
    if "team" in named or not named.get("dagger"):
        return named.get("team", "")
    answer = gateway.call(gateway.daggers.GetDagger, gateway_pb2.GetDaggerRequest(name=named["dagger"]))
    return answer.dagger.spec.team


def _delivery(delivery: gateway_pb2.AlertDelivery) -> str:
    if delivery.state == State.STATE_SENT:
        return delivery.receiver
    if delivery.state == State.STATE_WITHHELD:
        return f"{delivery.receiver} withheld"
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
