"""The stack of this machine, as the `daggers` command knows it (`cli.framework.extension.Extension`)."""

from collections.abc import Mapping
from pathlib import Path

from cli.errors import RefusedError, UnreachableError
from cli.framework.lazy_commands import LazyCommand
from devstack import remembered, state
from devstack.remembered import INSTALLATION


class Devstack:
    """Adds `daggers local` and `daggers demo`, and knows which stack is meant."""

    def __init__(self, installation: Path = INSTALLATION) -> None:
        """`installation`: the virtual environment whose commands these are."""
        self._installation = installation

    def commands(self) -> Mapping[str, LazyCommand]:
        """Return its commands, not loaded."""
        about = "Run the embedded stack on this machine: Kafka, InfluxDB and the services."
        runs = "Run the two example daggers on a simulated city, and recount their windows."
        return {
            "local": LazyCommand(about, "devstack.commands.local", "local"),
            "demo": LazyCommand(runs, "devstack.commands.demo"),
        }

    def stack(self, given: Path | None, home: Path) -> Path | None:
        """Return the directory of the stack that is meant; None when there is none."""
        return given or remembered.last(home, self._installation)

    def gateway(self, given: Path | None, home: Path) -> str:
        """Address of the gateway of the stack given, or of the last one. Raises UnreachableError."""
        folder = self.stack(given, home)
        stack = state.load(folder) if folder else None
        if stack is None:
            where = f"no stack was ever started in {folder}" if folder else self._none_known(home)
            raise UnreachableError(
                f"{where}: start a stack by `daggers local up`, or name a gateway by --gateway HOST:PORT",
                reason="NO_GATEWAY",
            )
        return stack.gateway

    def token_file(self, address: str, given: Path | None, home: Path) -> Path | None:
        """Return the file with the meant stack's token; None at any other address than its gateway's.

        Nor is it shown when that gateway does not run: somebody else may listen there meanwhile.
        """
        folder = self.stack(given, home)
        try:
            stack = state.load(folder) if folder else None
        except RefusedError:
            return None
        if stack is None or address.removeprefix("http://") != stack.gateway:
            return None
        return stack.token_file if stack.running("gateway") else None

    def kafka(self, given: Path | None, home: Path) -> str:
        """Bootstrap servers of the stack that is meant. Raises RefusedError when it was never started."""
        return state.require(remembered.resolve_state_dir(given, home, self._installation)).kafka

    def _none_known(self, home: Path) -> str:
        """Say why no stack is taken, where there is one of another installation."""
        newest = remembered.last_of_machine(home)
        if newest is None:
            return "no gateway is known"
        return (
            f"no stack was started from {self._installation} (the one in {newest.state_dir} is of"
            f" {newest.installation or 'another installation'}; --state-dir names it)"
        )

    def versions(self) -> Mapping[str, str]:
        """Versions of what it runs."""
        from importlib.metadata import version

        from devstack.tools import influxd, kafka

        return {"spark": version("pyspark"), "kafka": kafka.VERSION, "influxdb": influxd.VERSION}
