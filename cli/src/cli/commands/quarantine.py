"""`daggers quarantine`: records that were set aside, and what becomes of them."""

import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

import typer
from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2

from cli.arguments import Name, Timeout
from cli.deleting import Yes, agreed
from cli.errors import MisusedError, RefusedError
from cli.gateway import Gateway
from cli.group import group
from cli.instants import instant
from cli.json_views import quarantine as views
from cli.output import Printer
from cli.session import Session, command
from daggerclient.times import iso

quarantine = group("Records that were set aside.")
_FLAGS: Final = {
    "dagger": "NAME",
    "id": "ID",
    "reason": "--why",
    "selection.ids": "--id",
    "selection.reasons": "--reason",
    "selection.sinks": "--sink",
    "selection.stage": "--stage",
    "selection.since": "--since",
    "selection.until": "--until",
}
_POLL_S: Final = 0.5
_ID_SHOWN: Final = 12
WAIT_S: Final = 600.0
_UNFORESEEN: Final = (
    "not foreseen, only a replay tells: what a sink refuses again, rows of a sink or a query that is gone,"
    " newer rows in their place, and records that were never rows"
)


class Chosen(StrEnum):
    """Which states are listed."""

    OPEN = "open"
    ALL = "all"
    REPLAYED = "replayed"
    DISCARDED = "discarded"
    LATE = "late"
    FAILED_AGAIN = "failed-again"
    NOT_REPLAYABLE = "not-replayable"


Ids = Annotated[list[str] | None, typer.Option("--id", help="Id of a record, whole; may be repeated.")]
Reasons = Annotated[
    list[str] | None, typer.Option("--reason", help="Only with this reason; may be repeated.")
]
Sinks = Annotated[
    list[str] | None, typer.Option("--sink", help="Only rows that this sink refused; may be repeated.")
]
Stage = Annotated[str, typer.Option("--stage", help="Only of this stage: decode, event_time or sink.")]
Since = Annotated[
    str | None, typer.Option("--since", help="Set aside since then: 2h, 1d, or an instant.", metavar="TIME")
]
Until = Annotated[
    str | None, typer.Option("--until", help="Set aside before then: 2h, 1d, or an instant.", metavar="TIME")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would become of them.")]


def _selection(
    ids: Sequence[str] | None,
    reasons: Sequence[str] | None,
    sinks: Sequence[str] | None,
    stage: str,
    since: str | None,
    until: str | None,
) -> events_pb2.QuarantineSelection:
    now = datetime.now(UTC)
    selection = events_pb2.QuarantineSelection(ids=ids, reasons=reasons, sinks=sinks, stage=stage)
    if since:
        selection.since.FromDatetime(instant("--since", since, now))
    if until:
        selection.until.FromDatetime(instant("--until", until, now))
    return selection


@command(quarantine, "summary", example="daggers quarantine summary completed_bookings")
def summary(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Only of this dagger.")] = "",
) -> None:
    """How many records are open, by dagger, stage, reason and sink, and how many expire in 48 hours."""
    request = gateway_pb2.SummarizeQuarantineRequest(dagger=name)
    with session.connect(_FLAGS) as gateway:
        answer = gateway.call(gateway.quarantine.SummarizeQuarantine, request)
    cells = [
        (g.dagger, g.stage, g.reason, g.sink or "-", g.records, iso(g.oldest), g.expiring or "-")
        for g in answer.groups
    ]
    columns = ("DAGGER", "STAGE", "REASON", "SINK", "OPEN", "OLDEST", "EXPIRE IN 48 H")
    session.out.show(
        [views.group(each) for each in answer.groups],
        lambda out: out.table(columns, cells, empty="nothing is open"),
    )


@command(quarantine, "list", example="daggers quarantine list completed_bookings --reason MALFORMED")
def list_quarantined(
    session: Session,
    name: Name,
    ids: Ids = None,
    reason: Reasons = None,
    sink: Sinks = None,
    stage: Stage = "",
    since: Since = None,
    until: Until = None,
    state: Annotated[Chosen, typer.Option(help="Only in this state; open is all that is not done.")] = (
        Chosen.OPEN
    ),
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 100,
) -> None:
    """The newest records that the dagger has set aside, newest first, with what could be read of them."""
    request = gateway_pb2.ListQuarantinedRequest(
        dagger=name, page_size=limit, selection=_selection(ids, reason, sink, stage, since, until)
    )
    if state == Chosen.ALL:
        request.all_states = True
    elif state != Chosen.OPEN:
        value = state.value.replace("-", "_").upper()
        request.states.append(gateway_pb2.QuarantineState.Value(f"QUARANTINE_STATE_{value}"))
    with session.connect(_FLAGS) as gateway:
        answer = gateway.call(gateway.quarantine.ListQuarantined, request)
    statuses = [*answer.statuses, *(gateway_pb2.QuarantineStatus() for _ in answer.records)]
    listed = list(zip(answer.records, statuses, strict=False))
    cells = [
        (
            r.id[:_ID_SHOWN] or "-",
            f"{r.topic}/{r.partition}@{r.offset}",
            r.reason,
            views.state(status).lower(),
            r.detail,
            r.decoded_prefix or "-",
        )
        for r, status in listed
    ]
    session.out.show(
        [views.quarantined(record) | views.status(status) for record, status in listed],
        lambda out: out.table(
            ("ID", "RECORD", "REASON", "STATE", "DETAIL", "DECODED PREFIX"),
            cells,
            empty="nothing was set aside" if state == Chosen.ALL else f"nothing is {state.value}",
        ),
    )


@command(quarantine, "show", example="daggers quarantine show completed_bookings 0f3a9c2e")
def show(
    session: Session,
    name: Name,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the record, or how it begins.")],  # noqa: A002 - what it is
) -> None:
    """One record: why it was set aside, what has become of it, and what it holds by today's schema."""
    with session.connect(_FLAGS) as gateway:
        answer = gateway.call(
            gateway.quarantine.GetQuarantined, gateway_pb2.GetQuarantinedRequest(dagger=name, id=id)
        )
    document = views.shown(answer)

    def text(out: Printer) -> None:
        record, status = answer.record, answer.status
        said = [
            ("id", record.id),
            ("set aside", f"{iso(record.time)}, expires {iso(status.expire_time)}"),
            ("record", f"{record.topic}/{record.partition}@{record.offset}"),
            ("why", f"{record.stage} {record.reason}: {record.detail}"),
            ("state", views.state(status).lower() + (f" ({status.attempts})" if status.attempts else "")),
            ("replay", status.replay_id),
            ("outcome", f"{status.reason} {status.detail}".strip()),
            ("holds", answer.decoded or answer.undecodable),
        ]
        out.lines(f"{key:<10} {value}" for key, value in said if value)

    session.out.show(document, text)


@command(quarantine, "replay", example="daggers quarantine replay completed_bookings --sink crm --wait")
def replay(
    session: Session,
    name: Name,
    ids: Ids = None,
    reason: Reasons = None,
    sink: Sinks = None,
    stage: Stage = "",
    since: Since = None,
    until: Until = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also over a newer row, and after five failures.")
    ] = False,
    recompute: Annotated[bool, typer.Option("--recompute", help="Compute closed windows again.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all have an outcome.")] = False,
    timeout: Timeout = WAIT_S,
) -> None:
    """Write again what was set aside: every record that is open, or those that are chosen.

    Asks first on a terminal. --wait ends when all have an outcome: 0 when all were replayed, else 1.
    """
    if dry_run and wait:
        raise MisusedError("--dry-run replays nothing that --wait could wait for")
    request = gateway_pb2.ReplayQuarantinedRequest(
        dagger=name,
        selection=_selection(ids, reason, sink, stage, since, until),
        force=force,
        recompute=recompute,
        validate_only=True,
    )
    with session.connect(_FLAGS) as gateway:
        expected = gateway.call(gateway.quarantine.ReplayQuarantined, request)
        if dry_run or not expected.records:
            _tell_forecast(session, expected)
            return
        agreed(session, f"Replay {expected.records} records of {name}?", yes=yes)
        request.validate_only, request.request_id = False, uuid.uuid4().hex
        asked = gateway.call(gateway.quarantine.ReplayQuarantined, request)
        if not wait or not asked.records:
            document = views.replay_asked(asked)
            session.out.done(document, f"{asked.records} records of {name} are being replayed")
            return
        told = _waited(session, gateway, name, asked, timeout)
    _tell_outcome(session, name, told)


@command(quarantine, "discard", example='daggers quarantine discard orders --sink crm --why "test traffic"')
def discard(
    session: Session,
    name: Name,
    why: Annotated[str, typer.Option("--why", help="Why, for those who come after.")],
    ids: Ids = None,
    reason: Reasons = None,
    sink: Sinks = None,
    stage: Stage = "",
    since: Since = None,
    until: Until = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many.")] = False,
    yes: Yes = False,
) -> None:
    """Hide what is not wanted: every record that is open, or those that are chosen. Asks first on a terminal.

    Nothing is deleted: records stay as long as the topic keeps them.
    """
    request = gateway_pb2.DiscardQuarantinedRequest(
        dagger=name,
        selection=_selection(ids, reason, sink, stage, since, until),
        reason=why,
        validate_only=True,
    )
    with session.connect(_FLAGS) as gateway:
        answer = gateway.call(gateway.quarantine.DiscardQuarantined, request)
        if answer.records and not dry_run:
            agreed(session, f"Discard {answer.records} records of {name}?", yes=yes)
            request.validate_only, request.request_id = False, uuid.uuid4().hex
            answer = gateway.call(gateway.quarantine.DiscardQuarantined, request)
    document = {"records": answer.records, "sequence": answer.sequence, "dry_run": dry_run}
    session.out.done(
        document, f"{answer.records} records of {name} {'would be' if dry_run else 'are'} discarded"
    )


def _tell_forecast(session: Session, answer: gateway_pb2.ReplayQuarantinedResponse) -> None:
    cells = [
        (_outcome(each), each.records, each.reason or "-", each.detail or "-") for each in answer.forecast
    ]
    session.out.show(
        views.replay_asked(answer),
        lambda out: out.table(("EXPECTED", "RECORDS", "REASON", "DETAIL"), cells, empty="nothing is meant"),
    )
    some = any(each.outcome == telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED for each in answer.forecast)
    if some and not session.out.json:
        session.out.note(_UNFORESEEN)


def _outcome(each: gateway_pb2.QuarantineForecast) -> str:
    return telemetry_pb2.QuarantineOutcome.Name(each.outcome).removeprefix("QUARANTINE_OUTCOME_").lower()


def _waited(
    session: Session,
    gateway: Gateway,
    name: str,
    asked: gateway_pb2.ReplayQuarantinedResponse,
    timeout: float,
) -> gateway_pb2.GetReplayResponse:
    """The replay once each record has an outcome, or it was given up. Raises: RefusedError."""
    request = gateway_pb2.GetReplayRequest(dagger=name, replay_id=asked.replay_id)
    end = time.monotonic() + timeout
    with session.out.steps.step(f"replaying {asked.records} records of {name}") as report:
        while True:
            told = gateway.call(gateway.quarantine.GetReplay, request)
            if told.finished:
                return told
            last = f", {told.last_error.reason}" if told.last_error.reason else ""
            report(f"{sum(told.outcomes.values())} of {told.records}{last}")
            if time.monotonic() >= end:
                raise RefusedError(
                    f"the replay of {name} has not finished in {timeout:.0f} s: it goes on,"
                    f" `daggers events {name}` tells of it",
                    reason="NOT_REACHED",
                    detail=views.replay_told(told),
                )
            time.sleep(_POLL_S)


def _tell_outcome(session: Session, name: str, told: gateway_pb2.GetReplayResponse) -> None:
    replayed = told.outcomes.get("REPLAYED", 0)
    counts = ", ".join(f"{number} {outcome.lower()}" for outcome, number in sorted(told.outcomes.items()))
    session.out.done(views.replay_told(told), f"{told.records} records of {name}: {counts or 'no outcome'}")
    if replayed < told.records or told.HasField("error"):
        why = f": {told.error.detail or told.error.reason}" if told.HasField("error") else ""
        error = RefusedError(
            f"{told.records - replayed} records of {name} were not replayed{why}", reason="NOT_ALL_REPLAYED"
        )
        error.answered = True
        raise error
