"""Commands and stacks of another package: `devstack` adds its stack and its demo. None need be installed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from cli.errors import RefusedError, UnreachableError
from cli.framework.lazy_commands import LazyCommand

GROUP = "daggers.extensions"


class Extension(Protocol):
    """Interface of the class that an entry point of the group `daggers.extensions` names.

    In each method `given` is the value of --state-dir, and `home` the user's folder for state.
    """

    def commands(self) -> Mapping[str, LazyCommand]:
        """Return its commands, which are not imported yet."""

    def stack(self, given: Path | None, home: Path) -> Path | None:
        """Return the directory of the stack: the given one, or the last one; None where there is none."""

    def gateway(self, given: Path | None, home: Path) -> str:
        """Return the address of the stack's gateway. Raises: UnreachableError."""

    def token_file(self, address: str, given: Path | None, home: Path) -> Path | None:
        """Return the file with the stack's token where `address` is its gateway's; else None."""

    def kafka(self, given: Path | None, home: Path) -> str:
        """Return the bootstrap servers of the stack. Raises: RefusedError where it was never started."""

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what it runs."""


class Missing:
    """Stands in where no extension is installed: gateways and brokers are elsewhere."""

    HOW = "devstack is not installed here: `pip install ./devstack` in a clone adds it"

    def commands(self) -> Mapping[str, LazyCommand]:
        """Return commands that tell what to install."""
        return {
            name: LazyCommand(f"Not here: {self.HOW}.", "cli.commands.missing") for name in ("local", "demo")
        }

    def stack(self, given: Path | None, home: Path) -> Path | None:
        """Return None: there is no stack."""
        return None

    def gateway(self, given: Path | None, home: Path) -> str:
        """Refuse, since there is no stack. Raises: UnreachableError."""
        raise UnreachableError(
            f"{self._lacks(given)}: name a gateway by --gateway HOST:PORT", reason="NO_GATEWAY"
        )

    def token_file(self, address: str, given: Path | None, home: Path) -> Path | None:
        """Return None: there is no stack, and no token of one."""
        return None

    def kafka(self, given: Path | None, home: Path) -> str:
        """Refuse, since there is no stack. Raises: RefusedError."""
        raise RefusedError(f"{self._lacks(given)}: name a broker by --kafka HOST:PORT", reason="NO_STACK")

    def versions(self) -> Mapping[str, str]:
        """Return no versions beside the command's own."""
        return {}

    def _lacks(self, given: Path | None) -> str:
        return "--state-dir is for devstack, which is not installed" if given else "no stack is known"


def load_extension() -> Extension:
    """Load the installed extension."""
    from importlib.metadata import entry_points  # takes longer than the rest: only for who asks

    for entry in entry_points(group=GROUP):
        extension: type[Extension] = entry.load()
        return extension()
    return Missing()
