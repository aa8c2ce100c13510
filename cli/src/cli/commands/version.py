"""`daggers version`."""

from importlib.metadata import version as version_of

import typer

from cli.session import Session, command


def add(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "version", example="daggers version")(version)


def version(session: Session) -> None:
    """The versions of the command, and of what the embedded stack runs."""
    versions = {"daggers": version_of("cli"), **session.extension.versions()}
    session.out.show(versions, lambda _: session.out.table(("", ""), versions.items(), empty=""))
