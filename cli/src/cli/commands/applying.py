"""apply, plan: a dagger as its file says, and what that does before it is done."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, TypeVar

import typer

from cli.commands import querytests
from cli.commands.planned_edit import AcceptLoss, Edit, apply_planned
from cli.errors import CliError, RefusedError
from cli.files.dagger_file import parse_file, read_file, validate_file, with_place
from cli.framework.arguments import TIMEOUT_S, File, FileFlag, Timeout, Wait, one_file
from cli.framework.deletion import Yes
from cli.framework.group import group
from cli.framework.phase_wait import until_running
from cli.framework.session import Session, command
from cli.output import plan_text
from cli.output.json_views.answers import action, to_json
from cli.output.printer import Printer
from daggerclient import AcceptedRequest
from daggerclient.daggerfile.parse import DaggerFile

T = TypeVar("T")
CHANGES = 2
"""Exit code of a plan that does something, where that is asked for."""
app = group()


@command(app, "apply", example="daggers apply completed_bookings.yaml --wait")
def apply(
    session: Session,
    file: File = None,
    flag: FileFlag = None,
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="Reason, for `daggers history`.")] = "",
    yes: Yes = False,
    accept_loss: AcceptLoss = False,
    test: Annotated[
        bool, typer.Option("--test", help="Run the tests of the file first; apply nothing where one fails.")
    ] = False,
    wait: Wait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Wait for RUNNING with --wait.

    The effects of an edit are printed first, on stderr. An edit that loses rows or windows asks for
    confirmation on a terminal, and is refused elsewhere (PLAN_LOSES) without --accept-loss.
    """
    path = one_file(file, flag)
    text = read_file(path)
    files = _read(session, text, str(path))
    with session.connect({"message": "--message"}) as gateway:
        try:
            if test:
                querytests.check(session, gateway, files, str(path))
            if len(files) > 1:
                # nothing half-done: all of the file is accepted, or none of it
                _each(files, str(path), lambda one: gateway.apply(one.name, one.spec, validate_only=True))
            act = partial(apply_planned, session, gateway, message=message, loses=accept_loss, yes=yes)
            done = _each(files, str(path), lambda one: act(Edit(one.name, one.spec)))
        except RefusedError as refusal:
            _explain(session, refusal, text, str(path))
            raise
        documents = []
        for one in done:
            verb, dagger = action(one.action), one.dagger
            for warning in dagger.warnings:
                session.out.note(f"warning: {warning}")
            if not session.out.json:
                session.out.line(f"{dagger.name} {verb}")
            if wait:
                dagger = until_running(
                    gateway, AcceptedRequest(dagger, one.sequence), timeout, session.out.steps
                )
            documents.append(to_json(dagger) | {"action": verb})
    session.out.show(documents[0] if len(documents) == 1 else documents, lambda _: None)


@command(app, "plan", example="daggers plan completed_bookings.yaml")
def plan(
    session: Session,
    file: File = None,
    flag: FileFlag = None,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="Exit with 0: nothing to do, 2: changes, 1: any error."),
    ] = False,
) -> None:
    """Look into Kafka where open windows are recomputed, and try the sinks where they or columns change.

    The plan names the records that are read again, the windows that can no longer be complete, the sinks that
    would take no row, and what would help. Hosts of drivers look and try; where they cannot, the plan says
    why.
    """
    try:
        path = one_file(file, flag)
        text = read_file(path)
        files = _read(session, text, str(path))
        with session.connect() as gateway:
            try:
                plans = _each(
                    files, str(path), lambda one: (one.name, gateway.plan(one.name, one.spec, try_sinks=True))
                )
            except RefusedError as refusal:
                _explain(session, refusal, text, str(path))
                raise
    except CliError as error:
        error.exit_code = 1 if detailed_exitcode else error.exit_code
        raise
    documents = [plan_text.document(*pair) for pair in plans]

    def show(out: Printer) -> None:
        for pair in plans:
            out.lines(plan_text.lines(*pair))

    session.out.show(documents[0] if len(documents) == 1 else documents, show)
    if detailed_exitcode and any(document["action"] != "unchanged" for document in documents):
        raise typer.Exit(CHANGES)


def _read(session: Session, text: str, path: str) -> Sequence[DaggerFile]:
    """Parse the daggers of a file. Raises: CliError with all its problems."""
    files, errors = parse_file(text, path)
    if errors:  # with the gateway's findings about the rest of the file
        validate_file(session, text, path).check()
    return files


def _explain(session: Session, refusal: RefusedError, text: str, path: str) -> None:
    """Validate the file again after a refusal, for warnings and places. Raises: CliError."""
    if refusal.reason == "INVALID_FIELDS":
        validate_file(session, text, path).check()


def _each(files: Sequence[DaggerFile], path: str, act: Callable[[DaggerFile], T]) -> list[T]:
    """Act on each document; raise the refusals of all of them at once, each with its document and place."""
    done, refused = [], []
    for file in files:
        try:
            done.append(act(file))
        except RefusedError as refusal:
            refused.append(with_place(refusal, file, path))
    if not refused:
        return done
    first, findings = refused[0], [finding for error in refused for finding in error.findings]
    message = "; ".join(error.message for error in refused)
    raise RefusedError(message, reason=first.reason, findings=findings, detail=first.detail)
