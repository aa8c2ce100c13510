"""What another member adds to the command: `devstack` its stack and its demo. It runs without one, too."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from cli.errors import RefusedError, UnreachableError
from cli.framework.lazy_commands import LazyCommand

GROUP = "daggers.extensions"


class Extension(Protocol):
    """The entry point of the group `daggers.extensions` is a class that has these.

    In each of them, `given` is what --state-dir says and `home` is the user's folder for state.
    """

    def commands(self) -> Mapping[str, LazyCommand]:
        """Its commands, not loaded."""

    def stack(self, given: Path | None, home: Path) -> Path | None:
        """The directory of the stack that is meant: the given one, or the last one; None if there is none."""

    def gateway(self, given: Path | None, home: Path) -> str:
        """Address of the gateway of the stack that is meant. Raises UnreachableError."""

    def token_file(self, address: str, given: Path | None, home: Path) -> Path | None:
        """The file with the token of the stack that is meant, if this is its gateway's address; else None."""

    def kafka(self, given: Path | None, home: Path) -> str:
        """Bootstrap servers of the stack that is meant. Raises RefusedError when it was never started."""

    def versions(self) -> Mapping[str, str]:
        """Versions of what it runs."""


class Missing:
    """Nothing is installed beside the command: what it talks to is elsewhere."""

    HOW = "devstack is not installed here: `pip install ./devstack` in a clone adds it"

    def commands(self) -> Mapping[str, LazyCommand]:
        """Commands that say what to install."""
        return {
            name: LazyCommand(f"Not here: {self.HOW}.", "cli.commands.missing") for name in ("local", "demo")
        }

    def stack(self, given: Path | None, home: Path) -> Path | None:
        """None."""
        return None

    def gateway(self, given: Path | None, home: Path) -> str:
        """Raises UnreachableError."""
        raise UnreachableError(
            f"{self._lacks(given)}: name a gateway by --gateway HOST:PORT", reason="NO_GATEWAY"
        )

    def token_file(self, address: str, given: Path | None, home: Path) -> Path | None:
        """None."""
        return None

    def kafka(self, given: Path | None, home: Path) -> str:
        """Raises RefusedError."""
        raise RefusedError(f"{self._lacks(given)}: name a broker by --kafka HOST:PORT", reason="NO_STACK")

    def versions(self) -> Mapping[str, str]:
        """None but the command's own."""
        return {}

    def _lacks(self, given: Path | None) -> str:
        return "--state-dir is for devstack, which is not installed" if given else "no stack is known"


def installed() -> Extension:
    """The extension that is installed."""
    from importlib.metadata import entry_points  # takes longer than the rest: only for who asks

    for entry in entry_points(group=GROUP):
        extension: type[Extension] = entry.load()
        return extension()
    return Missing()
