"""`daggers apply`: a dagger as its file says."""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import typer

from cli.arguments import TIMEOUT_S, File, FileFlag, Timeout, Wait, one_file
from cli.errors import RefusedError
from cli.group import group
from cli.json_views import daggers as json_views
from cli.session import Session, command
from cli.validation import parsed, read_file, validate_file, with_place
from cli.waiting import until_running
from daggerclient import Written
from daggerclient.daggerfile.parse import DaggerFile

T = TypeVar("T")
app = group()


@command(app, "apply", example="daggers apply completed_bookings.yaml --wait")
def apply(
    session: Session,
    file: File = None,
    flag: FileFlag = None,
    message: Annotated[str, typer.Option("--message", "-m", help="Why, for `daggers history`.")] = "",
    wait: Wait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Create the daggers of a file, or bring them to what it says. --wait waits for RUNNING."""
    path = one_file(file, flag)
    text = read_file(path)
    files, errors = parsed(text, str(path))
    if errors:  # what the gateway would say of the rest is told with them
        validate_file(session, text, str(path)).check()
    with session.connect({"message": "--message"}) as gateway:
        try:
            if len(files) > 1:
                # nothing half-done: all of the file is accepted, or none of it
                _each(files, str(path), lambda one: gateway.apply(one.name, one.spec, validate_only=True))
            applied = _each(files, str(path), lambda one: gateway.apply(one.name, one.spec, message=message))
        except RefusedError as refusal:
            if refusal.reason == "INVALID_FIELDS":  # with the warnings, and the end of each place
                validate_file(session, text, str(path)).check()
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
