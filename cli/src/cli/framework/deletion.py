"""Delete resources: after a question on a terminal, or with --yes without one."""

import sys
from typing import Annotated, Any

import typer

from cli.errors import RefusedError
from cli.framework.session import Session

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check whether it can be deleted, and delete nothing.")
]


def asks(session: Session) -> bool:
    """Return whether a person can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not session.out.json


def agreed(session: Session, question: str, *, yes: bool, otherwise: str = "nothing was changed") -> None:
    """Ask for confirmation on a terminal. Raises: RefusedError with the text `otherwise` where the answer is
    no.
    """
    if asks(session) and not yes and not typer.confirm(question, err=True):
        raise RefusedError(otherwise, reason="DECLINED")


def confirm(session: Session, name: str, *, yes: bool, verb: str = "Delete", done: str = "deleted") -> None:
    """Ask whether a resource is to be deleted. Raises: RefusedError."""
    agreed(session, f"{verb} {name}?", yes=yes, otherwise=f"nothing was {done}")


def delete(
    session: Session,
    method: str,
    request: Any,
    *,
    kind: str,
    name: str,
    yes: bool,
    dry_run: bool,
    service: str = "catalog",
    verb: str = "Delete",
    done: str = "deleted",
) -> None:
    """Delete a resource by a method of one of the gateway's services; or only check that."""
    request.validate_only = dry_run
    if not dry_run:
        confirm(session, f"{kind} {name}", yes=yes, verb=verb, done=done)
    with session.connect({"name": "NAME", "message": "MESSAGE"}) as gateway:
        answer = gateway.call(getattr(getattr(gateway, service), method), request)
    document = {"name": name, "sequence": answer.sequence, "dry_run": dry_run}
    session.out.print_result(document, f"{kind} {name} {'can be' if dry_run else 'is'} {done}")
