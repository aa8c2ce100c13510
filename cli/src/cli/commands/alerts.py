"""`daggers alerts`: open alerts of daggers, their notifications, silences that hold these back, who looks
after them.
"""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.commands.acknowledgement import acknowledge, unacknowledge
from cli.commands.alert_receivers import receiver
from cli.commands.alert_text import find_alerts, line, second, table
from cli.commands.condition_explanation import explain
from cli.commands.route_explanation import explain_route
from cli.commands.rule_list import list_rules
from cli.commands.rule_test import try_rules
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.instants import ahead, span
from cli.framework.session import Session, command
from cli.framework.watch_resumption import by_sequence, resume
from cli.output.entries import Entries
from cli.output.json_views.answers import to_json

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
        " severity, team, domain, host, cluster, store; of a rule on rows also rule and key_COLUMN.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would follow.")]

command(
    alerts, "route", example="daggers alerts route --for completed_bookings severity=critical tag_api=pay"
)(explain_route)
command(alerts, "test", example="daggers alerts test bookings.yaml --last 2h")(try_rules)
command(alerts, "rules", example="daggers alerts rules completed_bookings")(list_rules)
command(alerts, "explain", example="daggers alerts explain completed_bookings late_rows")(explain)
alerts.add_typer(receiver, name="receiver")


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


command(alerts, "ack", example='daggers alerts ack 1f3c9a0b52 --comment "new disk comes at 10"')(acknowledge)
command(alerts, "unack", example="daggers alerts unack completed_bookings no_progress")(unacknowledge)


def describe_silence(answer: gateway_pb2.CreateSilenceResponse, *, dry_run: bool) -> str:
    """Format what a new silence holds back as a sentence."""
    silence = answer.silence
    name = "a silence" if dry_run else f"silence {silence.id}"
    whose = f"of team {silence.team}" if silence.team else "of all teams and of the platform"
    return (
        f"{name} {'would hold back' if dry_run else 'holds back'} alerts {whose} with"
        f" {' '.join(silence.matchers)} from {second(silence.begin)} until {second(silence.end)};"
        f" it matches {_count(answer.alerts)}"
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
    times = second(silence.begin), second(silence.end)
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
