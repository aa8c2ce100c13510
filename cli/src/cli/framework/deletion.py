"""How something is deleted: after a question on a terminal, and with --yes without one."""

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
    """Whether somebody can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not session.out.json


def agreed(session: Session, question: str, *, yes: bool, otherwise: str = "nothing was changed") -> None:
    """Ask, where somebody can answer. Raises: RefusedError, which says `otherwise`, when the answer is no."""
    if asks(session) and not yes and not typer.confirm(question, err=True):
        raise RefusedError(otherwise, reason="DECLINED")


def confirm(session: Session, name: str, *, yes: bool, verb: str = "Delete", done: str = "deleted") -> None:
    """Ask whether something is to be deleted. Raises: RefusedError."""
    agreed(session, f"{verb} {name}?", yes=yes, otherwise=f"nothing was {done}")


def delete(
    session: Session,
    method: str,
    request: Any,
    *,
    what: str,
    name: str,
    yes: bool,
    dry_run: bool,
    service: str = "catalog",
    verb: str = "Delete",
    done: str = "deleted",
) -> None:
    """Delete something by a method of one of the gateway's services; or only check that."""
    request.validate_only = dry_run
    if not dry_run:
        confirm(session, f"{what} {name}", yes=yes, verb=verb, done=done)
    with session.connect({"name": "NAME", "message": "MESSAGE"}) as gateway:
        answer = gateway.call(getattr(getattr(gateway, service), method), request)
    document = {"name": name, "sequence": answer.sequence, "dry_run": dry_run}
    session.out.done(document, f"{what} {name} {'can be' if dry_run else 'is'} {done}")
