"""`daggers version`."""

from importlib.metadata import version as version_of

from cli.framework.group import group
from cli.framework.session import Session, command

app = group()


@command(app, "version", example="daggers version")
def version(session: Session) -> None:
    """Print the versions of what the embedded stack runs, too."""
    versions = {"daggers": version_of("cli"), **session.extension().versions()}
    session.out.show(versions, lambda _: session.out.table(("", ""), versions.items(), empty=""))
