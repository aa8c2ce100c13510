"""apply, get, list, start, stop, restart, delete: a dagger's life."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from daggers.v1 import events_pb2, gateway_pb2

from cli import json_views
from cli.errors import MisusedError, RefusedError
from cli.gateway import Gateway
from cli.session import Session, command
from cli.validation import validate_file, with_place
from cli.waiting import until_deleted, until_running, until_stopped
from daggerclient import Written
from daggerclient.daggerfile.parse import DaggerFile, read
from daggerclient.daggerfile.show import to_yaml

Name = Annotated[str, typer.Argument(help="Name of the dagger.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is so.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long --wait waits.")]
TIMEOUT_S = 120.0
NAMED = {"name": "NAME"}
T = TypeVar("T")


def add(app: typer.Typer) -> None:
    """Register the commands."""
    command(app, "apply", example="daggers apply -f completed_bookings.yaml --wait")(apply)
    command(app, "get", example="daggers get completed_bookings -o json")(get)
    command(app, "list", example="daggers list --filter team=pricing")(list_)
    command(app, "start", example="daggers start completed_bookings --wait")(start)
    command(app, "stop", example="daggers stop completed_bookings --wait")(stop)
    command(app, "restart", example="daggers restart completed_bookings --wait")(restart)
    command(app, "delete", example="daggers delete completed_bookings --yes --wait")(delete)


def apply(
    session: Session,
    file: Annotated[Path, typer.Option("--file", "-f", help="Dagger file; - reads standard input.")],
    wait: Wait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Create the daggers of a file, or bring them to what it says. --wait waits for RUNNING."""
    text = read_file(file)
    files, errors = read(text, str(file))
    if errors:  # what the gateway would say of the rest is told with them
        validate_file(session, text, str(file)).check()
    with session.connect() as gateway:
        try:
            if len(files) > 1:
                # nothing half-done: all of the file is accepted, or none of it
                _each(files, str(file), lambda one: gateway.apply(one.name, one.spec, validate_only=True))
            applied = _each(files, str(file), lambda one: gateway.apply(one.name, one.spec))
        except RefusedError as refusal:
            if refusal.reason == "INVALID_FIELDS":  # with the warnings, and the end of each place
                validate_file(session, text, str(file)).check()
            raise
        documents = []
        for one in applied:
            action, dagger = json_views.action(one.action), one.dagger
            for warning in dagger.warnings:
                session.out.note(f"warning: {warning}")
            if not session.out.json:
                session.out.line(f"{dagger.name} {action}")
            if wait:
                dagger = until_running(gateway, Written(dagger, one.sequence), timeout, session.out.steps)
            documents.append(json_views.dagger(dagger) | {"action": action})
    session.out.show(documents[0] if len(documents) == 1 else documents, lambda _: None)


def get(session: Session, name: Name) -> None:
    """One dagger: what was asked, and what is observed."""
    with session.connect() as gateway:
        dagger = gateway.get(name)
    document = json_views.dagger(dagger)

    def text(_: object) -> None:
        spec = {"name": name, **document.pop("spec")}
        error = document.pop("last_error")
        warnings = document.pop("warnings")
        driver = document.pop("driver") or {}
        references = document.pop("references")
        facts = document | {f"driver_{key}": value for key, value in driver.items()}
        facts |= {f"reference {table}": version for table, version in references.items()}
        rows = [(key.replace("_", " "), "-" if value is None else value) for key, value in facts.items()]
        session.out.table(("", ""), rows, empty="")
        if error:
            session.out.line(f"last error: {error['domain']} {error['reason']}: {error['detail']}")
        for warning in warnings:
            session.out.line(f"warning: {warning}")
        session.out.line(to_yaml(spec))

    session.out.show(document, text)


def list_(
    session: Session,
    filter_: Annotated[
        str,
        typer.Option("--filter", help="Terms joined by AND: phase=RUNNING, team=…, cluster=…, name=prefix*."),
    ] = "",
) -> None:
    """All daggers, by name."""
    daggers: list[gateway_pb2.Dagger] = []
    with session.connect({"filter": "--filter"}) as gateway:
        request = gateway_pb2.ListDaggersRequest(page_size=1000, filter=filter_)
        while True:
            page = gateway.call(gateway.daggers.ListDaggers, request)
            daggers += page.daggers
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
    documents = [json_views.dagger(dagger) for dagger in daggers]
    rows = [(d["name"], d["phase"], d["desired"], d["version"], d["spec"]["team"]) for d in documents]
    session.out.show(
        documents,
        lambda _: session.out.table(
            ("NAME", "PHASE", "DESIRED", "VERSION", "TEAM"), rows, empty="no daggers yet"
        ),
    )


def start(session: Session, name: Name, wait: Wait = False, timeout: Timeout = TIMEOUT_S) -> None:
    """Run a dagger that is stopped or failed. --wait waits for RUNNING."""
    with session.connect(NAMED) as gateway:
        answer = gateway.call(gateway.daggers.StartDagger, gateway_pb2.StartDaggerRequest(name=name))
        _finish(session, gateway, Written(answer.dagger, answer.sequence), "start", wait, timeout)


def stop(
    session: Session,
    name: Name,
    now: Annotated[bool, typer.Option("--now", help="Kill the driver rather than let it finish.")] = False,
    wait: Wait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Stop a dagger after the batch it is in; it keeps its place. --wait waits for STOPPED."""
    mode = events_pb2.STOP_MODE_NOW if now else events_pb2.STOP_MODE_DRAIN
    with session.connect(NAMED) as gateway:
        answer = gateway.call(gateway.daggers.StopDagger, gateway_pb2.StopDaggerRequest(name=name, mode=mode))
        written = Written(answer.dagger, answer.sequence)
        dagger = until_stopped(gateway, written, timeout, session.out.steps) if wait else answer.dagger
    session.out.done(json_views.dagger(dagger), f"{name} {'is stopped' if wait else 'is asked to stop'}")


def restart(session: Session, name: Name, wait: Wait = False, timeout: Timeout = TIMEOUT_S) -> None:
    """Stop the driver and launch a new one. --wait waits for the new one to be RUNNING."""
    with session.connect(NAMED) as gateway:
        answer = gateway.call(gateway.daggers.RestartDagger, gateway_pb2.RestartDaggerRequest(name=name))
        _finish(session, gateway, Written(answer.dagger, answer.sequence), "restart", wait, timeout)


def delete(
    session: Session,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait: Wait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Stop a dagger and free its name. Asks first on a terminal. --wait waits until it is gone."""
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not session.out.json
    if asks and not yes and not typer.confirm(f"Delete {name}?", err=True):
        raise RefusedError("nothing was deleted", reason="DECLINED")
    with session.connect(NAMED) as gateway:
        answer = gateway.call(gateway.daggers.DeleteDagger, gateway_pb2.DeleteDaggerRequest(name=name))
        if wait:
            until_deleted(gateway, Written(answer.dagger, answer.sequence), timeout, session.out.steps)
    phase = {"phase": "DELETED"} if wait else {}
    document = json_views.dagger(answer.dagger) | phase
    session.out.done(document, f"{name} {'is deleted' if wait else 'is asked to go'}")


def _finish(
    session: Session, gateway: Gateway, written: Written, verb: str, wait: bool, timeout: float
) -> None:
    dagger = until_running(gateway, written, timeout, session.out.steps) if wait else written.dagger
    name = dagger.name
    session.out.done(json_views.dagger(dagger), f"{name} {'is running' if wait else f'is asked to {verb}'}")


def _each(files: Sequence[DaggerFile], path: str, act: Callable[[DaggerFile], T]) -> list[T]:
    """Act on each document; what is refused is told of all of them, with which one and where."""
    done, refused = [], []
    for file in files:
        try:
            done.append(act(file))
        except RefusedError as refusal:
            refused.append(with_place(refusal, file, path))
    if not refused:
        return done
    first, findings = refused[0], [finding for each in refused for finding in each.findings]
    message = "; ".join(each.message for each in refused)
    raise RefusedError(message, reason=first.reason, findings=findings, detail=first.detail)


def read_file(file: Path) -> str:
    """The text of a dagger file; of standard input for -. Raises MisusedError, RefusedError."""
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{file} is not UTF-8 text", reason="INVALID_FILE") from error
    except OSError as error:
        raise MisusedError(f"{file} cannot be read: {error.strerror}") from error
