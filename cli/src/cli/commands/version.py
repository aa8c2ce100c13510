"""`daggers version`."""

from importlib.metadata import version as version_of

import typer

from cli.session import Session, command
from devstack.tools import influxd, kafka


def add(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "version", example="daggers version")(version)


def version(session: Session) -> None:
    """The versions of the command, and of what the embedded stack runs."""
    versions = {
        "daggers": version_of("cli"),
        "spark": version_of("pyspark"),
        "kafka": kafka.VERSION,
        "influxdb": influxd.VERSION,
    }
    session.out.show(versions, lambda _: session.out.table(("", ""), versions.items(), empty=""))
