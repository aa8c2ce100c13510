"""get, list, start, stop, restart, delete: a dagger's life."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from daggers.v1 import events_pb2, gateway_pb2

from cli.commands import alert_text
from cli.errors import MisusedError
from cli.framework.arguments import TIMEOUT_S, Name, Timeout, Wait
from cli.framework.deletion import DryRun, Yes, agreed, confirm
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.phase_wait import until_deleted, until_running, until_stopped
from cli.framework.session import Session, command
from cli.output import error_text, vitals
from cli.output.json_views.answers import to_json
from daggerclient import AcceptedRequest
from daggerspec import anew

NAMED = {"name": "NAME"}
FACTS = (
    "name", "desired", "generation", "version", "observed_generation", "observed_version", "attempt",
    "not_before", "create_time", "update_time", "create_sequence",
    "creator", "updater",
)  # fmt: skip
"""Keys of a dagger's document that `get` prints beside its facts in words."""
LOOK_S = 1.0
"""Interval of --watch, in seconds."""

app = group()


@command(app, "get", example="daggers get completed_bookings -o json")
def get(session: Session, name: Name) -> None:
    """Print its lag, its rates, its newest error and its warnings, too."""
    from daggerclient.daggerfile.write import to_yaml  # YAML, which no other command here writes

    with session.connect() as gateway:
        dagger = gateway.get(name)
        fired = list(alert_text.find_alerts(gateway, name))
    document = to_json(dagger) | {"alerts": [to_json(alert) for alert in fired]}

    def text(_: object) -> None:
        warning_codes = {warning.code for warning in dagger.vitals.warnings}
        # the driver's warnings explain a bare reason better
        noted = [warning for warning in document["warnings"] if " " in warning or not warning_codes]
        facts = {key: document[key] for key in FACTS}
        facts |= {f"driver_{key}": value for key, value in (document["driver"] or {}).items()}
        facts |= {f"reference {table}": version for table, version in document["references"].items()}
        rows = [(key.replace("_", " "), "-" if value is None else value) for key, value in facts.items()]
        session.out.table(("", ""), [*vitals.facts(dagger, datetime.now(UTC)), *rows], empty="")
        if dagger.HasField("last_error") and dagger.last_error.reason not in warning_codes:
            session.out.line(f"last error: {error_text.sentence(dagger.last_error)}")
        for warning in (*map(vitals.warning, dagger.vitals.warnings), *noted):
            session.out.line(f"warning: {warning}")
        for alert in fired:
            session.out.line(f"alert: {alert_text.sentence(alert)}")
        session.out.line(to_yaml({"name": name, **document["spec"]}))

    session.out.show(document, text)


@command(app, "list", example="daggers list --filter team=pricing")
def list_(
    session: Session,
    filter_: Annotated[
        str,
        typer.Option(
            "--filter",
            help="Terms joined by AND: phase=RUNNING, team=…, cluster=…, name=prefix*, text=…: a word of the"
            " name, team, cluster, who made it, streams, topics or sinks.",
        ),
    ] = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show changes as they happen, until Ctrl-C.")
    ] = False,
) -> None:
    """Show what each does now; -o wide has every column."""
    if watch and session.out.json:
        raise MisusedError("--watch is for people: services call WatchVitals and WatchEvents")
    with session.connect({"filter": "--filter"}) as gateway:
        daggers = _find_daggers(gateway, filter_)
        documents = [to_json(dagger) for dagger in daggers] if session.out.json else []
        rows = _rows(session, daggers)
        session.out.show(documents, lambda _: _table(session, gateway, filter_, rows))
        while watch:
            time.sleep(LOOK_S)
            before, rows = rows, _rows(session, _find_daggers(gateway, filter_))
            if rows != before:
                session.out.clear()
                _table(session, gateway, filter_, rows)


def _find_daggers(gateway: Gateway, filter_: str) -> list[gateway_pb2.Dagger]:
    request = gateway_pb2.ListDaggersRequest(page_size=1000, filter=filter_)
    pages = gateway.pages(gateway.daggers.ListDaggers, request)
    return [dagger for page in pages for dagger in page.daggers]


def _rows(session: Session, daggers: Sequence[gateway_pb2.Dagger]) -> Sequence[Sequence[str]]:
    now, wide = datetime.now(UTC), session.out.wide
    return [vitals.row(dagger, now, wide=wide) for dagger in daggers]


def _table(session: Session, gateway: Gateway, filter_: str, rows: Sequence[Sequence[str]]) -> None:
    empty = "no daggers yet"
    if filter_ and not rows:
        every = gateway_pb2.ListDaggersRequest(page_size=1)
        if total := gateway.call(gateway.daggers.ListDaggers, every).total_size:
            empty = f"none of {total:,} matches"
    session.out.table(vitals.WIDE if session.out.wide else vitals.COLUMNS, rows, empty=empty)


@command(app, "start", example="daggers start completed_bookings --wait")
def start(session: Session, name: Name, wait: Wait = False, timeout: Timeout = TIMEOUT_S) -> None:
    """Wait for RUNNING with --wait."""
    with session.connect(NAMED) as gateway:
        answer = gateway.call(gateway.daggers.StartDagger, gateway_pb2.StartDaggerRequest(name=name))
        _finish(session, gateway, AcceptedRequest(answer.dagger, answer.sequence), "start", wait, timeout)


@command(app, "stop", example="daggers stop completed_bookings --wait")
def stop(
    session: Session,
    name: Name,
    now: Annotated[bool, typer.Option("--now", help="Kill the driver rather than let it finish.")] = False,
    wait: Wait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Wait for STOPPED with --wait."""
    mode = events_pb2.STOP_MODE_NOW if now else events_pb2.STOP_MODE_DRAIN
    with session.connect(NAMED) as gateway:
        answer = gateway.call(gateway.daggers.StopDagger, gateway_pb2.StopDaggerRequest(name=name, mode=mode))
        written = AcceptedRequest(answer.dagger, answer.sequence)
        dagger = until_stopped(gateway, written, timeout, session.out.steps) if wait else answer.dagger
    session.out.print_result(to_json(dagger), f"{name} {'is stopped' if wait else 'is asked to stop'}")


@command(app, "restart", example="daggers restart completed_bookings --wait")
def restart(
    session: Session,
    name: Name,
    from_start: Annotated[
        bool,
        typer.Option("--from-start", help="Begin again at its `start`, without its checkpoint."),
    ] = False,
    yes: Yes = False,
    wait: Wait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Wait for the new driver to be RUNNING with --wait."""
    with session.connect(NAMED) as gateway:
        if from_start:
            session.out.note(f"{name} begins anew: {anew.consequences(gateway.get(name).spec)}")
            agreed(session, f"Begin {name} anew?", yes=yes)
        request = gateway_pb2.RestartDaggerRequest(name=name, from_start=from_start)
        answer = gateway.call(gateway.daggers.RestartDagger, request)
        _finish(session, gateway, AcceptedRequest(answer.dagger, answer.sequence), "restart", wait, timeout)


@command(app, "delete", example="daggers delete completed_bookings --yes --wait")
def delete(
    session: Session,
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Wait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Ask first on a terminal. Wait until it is gone with --wait."""
    if dry_run and wait:
        raise MisusedError("--dry-run deletes nothing that --wait could wait for")
    if not dry_run:
        confirm(session, name, yes=yes)
    request = gateway_pb2.DeleteDaggerRequest(name=name, validate_only=dry_run)
    with session.connect(NAMED) as gateway:
        answer = gateway.call(gateway.daggers.DeleteDagger, request)
        if wait:
            until_deleted(
                gateway, AcceptedRequest(answer.dagger, answer.sequence), timeout, session.out.steps
            )
    phase = {"phase": "DELETED"} if wait else {}
    document = to_json(answer.dagger) | phase
    done = "can be deleted" if dry_run else "is deleted" if wait else "is asked to go"
    session.out.print_result(document, f"{name} {done}")


def _finish(
    session: Session, gateway: Gateway, written: AcceptedRequest, verb: str, wait: bool, timeout: float
) -> None:
    dagger = until_running(gateway, written, timeout, session.out.steps) if wait else written.dagger
    name = dagger.name
    session.out.print_result(to_json(dagger), f"{name} {'is running' if wait else f'is asked to {verb}'}")
