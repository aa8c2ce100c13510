"""`daggers quarantine`: list, replay and discard quarantined records."""

import uuid
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from daggers.v1 import gateway_pb2

from cli.commands.quarantine_replay import NOTHING_CHOSEN, edit, tell_forecast, tell_outcome, wait_for_replay
from cli.commands.quarantine_selection import (
    Ids,
    Reasons,
    Since,
    Sinks,
    Stage,
    Until,
    selection,
    with_whole_ids,
)
from cli.errors import MisusedError
from cli.framework.arguments import Name, Timeout
from cli.framework.deletion import Yes, agreed
from cli.framework.group import group
from cli.framework.instants import span
from cli.framework.session import Session, command
from cli.output.json_views import quarantine as views
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from daggerclient.times import iso

quarantine = group()
_FLAGS: Final = {
    "dagger": "NAME",
    "id": "ID",
    "reason": "--why",
    "period": "--for",
    "selection.ids": "--id",
    "selection.reasons": "--reason",
    "selection.sinks": "--sink",
    "selection.stage": "--stage",
    "selection.since": "--since",
    "selection.until": "--until",
    "edits[0]": "--with",
    "edits[0].id": "--id",
    "edits[0].decoded": "--with",
    "edits[0].value": "--with",
}
_ID_SHOWN: Final = 12
WAIT_S: Final = 600.0


class StateFilter(StrEnum):
    """States by which records are listed."""

    OPEN = "open"
    ALL = "all"
    REPLAYED = "replayed"
    DISCARDED = "discarded"
    LATE = "late"
    FAILED_AGAIN = "failed-again"
    NOT_REPLAYABLE = "not-replayable"


DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the expected outcomes, and replay nothing.")]


@command(quarantine, "summary", example="daggers quarantine summary completed_bookings")
def summary(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Only records of this dagger.")] = "",
) -> None:
    """Count the open records by dagger, stage, reason and sink, and those that expire in 48 hours."""
    request = gateway_pb2.SummarizeQuarantineRequest(dagger=name)
    with session.connect(_FLAGS) as gateway:
        answer = gateway.call(gateway.quarantine.SummarizeQuarantine, request)
    cells = [
        (g.dagger, g.stage, g.reason, g.sink or "-", g.records, iso(g.oldest), g.expiring or "-")
        for g in answer.groups
    ]
    columns = ("DAGGER", "STAGE", "REASON", "SINK", "OPEN", "OLDEST", "EXPIRE IN 48 H")
    session.out.show(
        [to_json(listed) for listed in answer.groups],
        lambda out: out.table(columns, cells, empty="nothing is open"),
    )


@command(quarantine, "list", example="daggers quarantine list completed_bookings --reason MALFORMED")
def list_quarantined(
    session: Session,
    name: Name,
    *,
    ids: Ids = None,
    reason: Reasons = None,
    sink: Sinks = None,
    stage: Stage = "",
    since: Since = None,
    until: Until = None,
    state: Annotated[
        StateFilter, typer.Option(help="Only records in this state; open: without a final outcome.")
    ] = (StateFilter.OPEN),
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 100,
) -> None:
    """List the newest quarantined records of a dagger, newest first, with what could be decoded."""
    request = gateway_pb2.ListQuarantinedRequest(
        dagger=name, page_size=limit, selection=selection(ids, reason, sink, stage, since, until)
    )
    if state == StateFilter.ALL:
        request.all_states = True
    elif state != StateFilter.OPEN:
        value = state.value.replace("-", "_").upper()
        request.states.append(gateway_pb2.QuarantineState.Value(f"QUARANTINE_STATE_{value}"))
    with session.connect(_FLAGS) as gateway:
        with_whole_ids(gateway, name, request.selection)
        answer = gateway.call(gateway.quarantine.ListQuarantined, request)
    statuses = [*answer.statuses, *(gateway_pb2.QuarantineStatus() for _ in answer.records)]
    listed = list(zip(answer.records, statuses, strict=False))
    cells = [
        (
            r.id[:_ID_SHOWN] or "-",
            views.place(r),
            r.reason,
            views.state_text(status),
            r.detail,
            r.decoded_prefix or "-",
        )
        for r, status in listed
    ]
    session.out.show(
        [to_json(record) | views.status_document(status) for record, status in listed],
        lambda out: out.table(
            ("ID", "RECORD", "REASON", "STATE", "DETAIL", "DECODED PREFIX"),
            cells,
            empty="nothing was quarantined" if state == StateFilter.ALL else f"nothing is {state.value}",
        ),
    )


@command(quarantine, "show", example="daggers quarantine show completed_bookings 0f3a9c2e")
def show(
    session: Session,
    name: Name,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the record, or its first characters.")],  # noqa: A002 - what it is
) -> None:
    """Show a quarantined record: its reason, its outcome, and its content by today's schema."""
    with session.connect(_FLAGS) as gateway:
        answer = gateway.call(
            gateway.quarantine.GetQuarantined, gateway_pb2.GetQuarantinedRequest(dagger=name, id=id)
        )
    document = views.content_document(answer)

    def text(out: Printer) -> None:
        record, status = answer.record, answer.status
        rows = [
            ("id", record.id),
            ("quarantined", f"{iso(record.time)}, expires {iso(status.expire_time)}"),
            ("record", views.place(record)),
            ("why", f"{views.stage_text(record)}, {record.reason}: {record.detail}"),
            ("state", views.state_text(status) + (f" ({status.attempts})" if status.attempts else "")),
            ("replay", status.replay_id),
            ("outcome", f"{status.reason} {status.detail}".strip()),
            ("holds", answer.decoded or answer.undecodable),
        ]
        out.lines(f"{key:<10} {value}" for key, value in rows if value)

    session.out.show(document, text)


@command(quarantine, "replay", example="daggers quarantine replay completed_bookings --sink crm --wait")
def replay(
    session: Session,
    name: Name,
    *,
    ids: Ids = None,
    reason: Reasons = None,
    sink: Sinks = None,
    stage: Stage = "",
    since: Since = None,
    until: Until = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replay over a newer row, too, and after five failures.")
    ] = False,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Recompute closed windows from Kafka.")
    ] = False,
    with_: Annotated[
        Path | None,
        typer.Option(
            "--with",
            help="Replay this in place of the record of --id: the edited output of `show ID -o"
            " json`; JSON of its new content, of a row the columns that change; or the bytes of"
            " a record.",
            metavar="FILE",
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until each record has an outcome.")] = False,
    timeout: Timeout = WAIT_S,
) -> None:
    """Replay quarantined records: every open one, or those that are selected.

    Ask first on a terminal. With --wait, end when each has an outcome: exit with 0 when all were replayed,
    else 1.
    """
    if dry_run and wait:
        raise MisusedError("--dry-run replays nothing that --wait could wait for")
    if with_ is not None and len(ids or ()) != 1:
        raise MisusedError("--with is written in place of one record: say which by one --id")
    request = gateway_pb2.ReplayQuarantinedRequest(
        dagger=name,
        selection=selection(ids, reason, sink, stage, since, until),
        force=force,
        recompute=recompute,
        validate_only=True,
    )
    with session.connect(_FLAGS) as gateway:
        chosen = with_whole_ids(gateway, name, request.selection)
        if with_ is not None:
            request.edits.append(edit(gateway, name, chosen.ids[0], with_))
        if dry_run or not yes:
            expected = gateway.call(gateway.quarantine.ReplayQuarantined, request)
            if dry_run or not expected.records:
                tell_forecast(session, expected)
                return
            agreed(session, f"Replay {views.count_text(expected.records)} of {name}?", yes=yes)
        request.validate_only, request.request_id = False, uuid.uuid4().hex
        requested = gateway.call(gateway.quarantine.ReplayQuarantined, request)
        if not requested.records:
            tell_forecast(session, requested)
            return
        if not wait:
            document = to_json(requested)
            records = views.count_text(requested.records)
            sentence = f"replaying {records} of {name}: `daggers events {name}` tells how it ends"
            session.out.print_result(document, sentence)
            return
        ended = wait_for_replay(session, gateway, name, requested, timeout)
    tell_outcome(session, name, ended)


@command(quarantine, "allow", example="daggers quarantine allow completed_bookings --for 1h")
def allow(
    session: Session,
    name: Name,
    for_: Annotated[
        str, typer.Option("--for", help="Duration: 30m, 1h, at most 1d; 0s ends it.", metavar="DURATION")
    ],
    why: Annotated[str, typer.Option("--why", help="Reason, for those who come after.")] = "",
) -> None:
    """Let sinks refuse any number of rows for a while, whatever `max_refused` says.

    A batch that waits because of it (SINK_REFUSES_MOST) goes on: refused rows are quarantined.
    """
    request = gateway_pb2.AllowRefusalsRequest(dagger=name, reason=why, request_id=uuid.uuid4().hex)
    request.period.FromTimedelta(span("--for", for_))
    with session.connect(_FLAGS) as gateway:
        answer = gateway.call(gateway.quarantine.AllowRefusals, request)
    document = {"until": iso(answer.until), "sequence": answer.sequence}
    sentence = f"sinks of {name} may refuse as many rows as they like until {iso(answer.until)}"
    session.out.print_result(
        document, sentence if any(request.period.ListFields()) else f"max_refused of {name} holds again"
    )


@command(quarantine, "discard", example='daggers quarantine discard orders --sink crm --why "test traffic"')
def discard(
    session: Session,
    name: Name,
    *,
    why: Annotated[str, typer.Option("--why", help="Reason, for those who come after.")],
    ids: Ids = None,
    reason: Reasons = None,
    sink: Sinks = None,
    stage: Stage = "",
    since: Since = None,
    until: Until = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how many there are, and discard nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Discard quarantined records: every open one, or those that are selected.

    Ask first on a terminal. Nothing is deleted: discarded records are hidden, and stay as long as the topic
    keeps them.
    """
    request = gateway_pb2.DiscardQuarantinedRequest(
        dagger=name,
        selection=selection(ids, reason, sink, stage, since, until),
        reason=why,
        validate_only=True,
    )
    with session.connect(_FLAGS) as gateway:
        with_whole_ids(gateway, name, request.selection)
        answer = gateway.call(gateway.quarantine.DiscardQuarantined, request)
        if answer.records and not dry_run:
            agreed(session, f"Discard {views.count_text(answer.records)} of {name}?", yes=yes)
            request.validate_only, request.request_id = False, uuid.uuid4().hex
            answer = gateway.call(gateway.quarantine.DiscardQuarantined, request)
    document = {"records": answer.records, "sequence": answer.sequence, "dry_run": dry_run}
    sentence = f"{views.count_text(answer.records)} of {name}: {'would be ' if dry_run else ''}discarded"
    session.out.print_result(document, sentence if answer.records else NOTHING_CHOSEN)
