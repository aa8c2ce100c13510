"""The stack of this machine, as the `daggers` command knows it (`cli.extension.Extension`)."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import typer

from cli.errors import UnreachableError
from devstack import remembered, state
from devstack.commands import demo, local
from devstack.tools import influxd, kafka


class Devstack:
    """Adds `daggers local` and `daggers demo`, and knows which stack is meant."""

    def add(self, app: typer.Typer) -> None:
        """Register the commands."""
        demo.add(app)
        app.add_typer(local.app, name="local", no_args_is_help=True)

    def gateway(self, given: Path | None, home: Path) -> str:
        """Address of the gateway of the stack given, or of the last one. Raises UnreachableError."""
        folder = given or remembered.last(home)
        stack = state.load(folder) if folder else None
        if stack is None:
            where = f"no stack was ever started in {folder}" if folder else "no gateway is known"
            raise UnreachableError(
                f"{where}: start a stack by `daggers local up`, or name a gateway by --gateway HOST:PORT",
                reason="NO_GATEWAY",
            )
        return stack.gateway

    def kafka(self, given: Path | None, home: Path) -> str:
        """Bootstrap servers of the stack that is meant. Raises RefusedError when it was never started."""
        return state.known(remembered.meant(given, home)).kafka

    def versions(self) -> Mapping[str, str]:
        """Versions of what it runs."""
        return {"spark": version("pyspark"), "kafka": kafka.VERSION, "influxdb": influxd.VERSION}
