"""How something is deleted: after a question on a terminal, and with --yes without one."""

import sys
from typing import Annotated

import typer
from google.protobuf.message import Message

from cli.errors import RefusedError
from cli.session import Session

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(session: Session, name: str, *, yes: bool) -> None:
    """Ask, where somebody can answer. Raises: RefusedError when the answer is no."""
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not session.out.json
    if asks and not yes and not typer.confirm(f"Delete {name}?", err=True):
        raise RefusedError("nothing was deleted", reason="DECLINED")


def delete(session: Session, method: str, request: Message, *, what: str, name: str, yes: bool) -> None:
    """Delete a thing of the catalogue by a method of CatalogService."""
    confirm(session, f"{what} {name}", yes=yes)
    with session.connect({"name": "NAME", "message": "MESSAGE"}) as gateway:
        answer = gateway.call(getattr(gateway.catalog, method), request)
    session.out.done({"name": name, "sequence": answer.sequence}, f"{what} {name} is deleted")
