"""history, diff, rollback: the revisions of a dagger."""

from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.commands.planned_edit import AcceptLoss, Edit, apply_planned
from cli.errors import RefusedError
from cli.framework.arguments import TIMEOUT_S, Name, Timeout, Wait
from cli.framework.deletion import Yes
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.phase_wait import until_running
from cli.framework.session import Session, command
from cli.output import plan_text
from cli.output.json_views.answers import action, to_json
from cli.output.printer import Printer
from cli.output.visible import printable
from daggerclient import AcceptedRequest
from daggerclient.times import iso
from daggerspec import changes

NAMED = {"name": "NAME"}
SHOWN = 60
"""Most characters of a value in a list."""
Version = Annotated[int, typer.Argument(min=1, help="Version to compare, as `daggers history` lists it.")]

app = group()


@command(app, "history", example="daggers history completed_bookings")
def history(
    session: Session,
    name: Name,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many, the newest.")] = 20,
) -> None:
    """Show who made each, when, what changed, and why."""
    with session.connect(NAMED) as gateway:
        revisions = [revision for _, revision in zip(range(limit), gateway.revisions(name), strict=False)]
    rows = [
        (
            revision.version,
            iso(revision.time),
            revision.actor or "anonymous",
            _words(revision),
            printable(revision.message),
        )
        for revision in revisions
    ]
    session.out.show(
        [to_json(revision) for revision in revisions],
        lambda out: out.table(("VERSION", "TIME", "WHO", "WHAT", "WHY"), rows, empty="no revisions"),
    )


@command(app, "diff", example="daggers diff completed_bookings 3 5")
def diff(
    session: Session,
    name: Name,
    before: Version,
    after: Annotated[
        int | None, typer.Argument(min=1, help="Version to compare with; default: the newest.")
    ] = None,
) -> None:
    """Compare field by field, and the query line by line."""
    with session.connect(NAMED) as gateway:
        old, new = in_force(gateway, name, before), in_force(gateway, name, after)
    changed = changes.changes(old.spec, new.spec)
    document = {
        "name": name,
        "before": old.version,
        "after": new.version,
        "changes": [plan_text.change(change) for change in changed],
    }
    labels = (f"version {old.version}", f"version {new.version}")

    def text(out: Printer) -> None:
        out.lines(plan_text.differences(changed, *labels))
        if not changed:
            out.note(f"{labels[0]} and {labels[1]} say the same")

    session.out.show(document, text)


@command(app, "rollback", example="daggers rollback completed_bookings --to 3 --yes")
def rollback(
    session: Session,
    name: Name,
    to: Annotated[int, typer.Option("--to", min=1, help="Version to restore.")],
    message: Annotated[
        str,
        typer.Option(
            "--message", "-m", help="Reason, for `daggers history`; default: the version that is restored."
        ),
    ] = "",
    yes: Yes = False,
    accept_loss: AcceptLoss = False,
    wait: Wait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Ask first on a terminal.

    A rollback is planned like any other edit: its effects are printed first, on stderr, and one that loses
    rows or windows is refused without a terminal (PLAN_LOSES), unless there is --accept-loss.
    """
    with session.connect({**NAMED, "message": "--message"}) as gateway:
        old = in_force(gateway, name, to)
        why = message or f"rollback to version {to}"
        edit = Edit(name, old.spec, f"version {old.version}", f"Roll {name} back to version {to}?")
        done = apply_planned(session, gateway, edit, message=why, loses=accept_loss, yes=yes)
        dagger = done.dagger
        if wait:
            dagger = until_running(
                gateway, AcceptedRequest(dagger, done.sequence), timeout, session.out.steps
            )
    verb = action(done.action)
    session.out.print_result(to_json(dagger) | {"action": verb}, f"{name} {verb}")


def in_force(gateway: Gateway, name: str, version: int | None) -> gateway_pb2.Revision:
    """Return the revision that was in force at a version; the newest for None. Raises: RefusedError."""
    for revision in gateway.revisions(name):
        if version is None or revision.version <= version:
            return revision
    raise RefusedError(f"version {version} of {name} is not remembered", reason="UNKNOWN_VERSION")


def _words(revision: gateway_pb2.Revision) -> str:
    """Describe the changes of a revision in a few words."""
    if not revision.changes:
        return "created" if revision.version == 1 else "-"
    changed = [
        "sql" if change.field == changes.SQL else plan_text.difference(change, SHOWN)
        for change in revision.changes
    ]
    return "; ".join(changed)
