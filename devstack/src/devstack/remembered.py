"""Find the stack of a command that names none: the one that was last started from the same installation.

Two checkouts on one machine have a stack each, and neither's commands touch the other's. An installation is
the folder of its virtual environment (`sys.prefix`). Stacks of versions before this rule belong to nobody,
until an installation starts one again: the last of them is every installation's that has started none.
"""

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chassis.files import replace_text
from cli.errors import RefusedError
from devstack import processes, state

INSTALLATION: Final = Path(sys.prefix).resolve()
"""The one that this command is of."""


@dataclass(frozen=True)
class RememberedStack:
    """A stack that was started: its directory, and from which installation (None: not recorded)."""

    state_dir: Path
    installation: Path | None

    @property
    def exists(self) -> bool:
        """Tell whether its directory is there, or something of it runs without one."""
        return self.state_dir.is_dir() or bool(processes.find_marked(self.state_dir))

    def belongs_to(self, installation: Path) -> bool:
        """Tell whether commands of `installation` may take it by themselves."""
        return other_owner(self.state_dir, installation, self.installation) is None


def last(state_home: Path, installation: Path) -> Path | None:
    """Return the directory of the stack that this installation started last, if any of it is left."""
    own = _read(_own_file(state_home, installation))
    if own is not None and own.exists:
        return own.state_dir
    newest = last_of_machine(state_home)
    return newest.state_dir if newest is not None and newest.belongs_to(installation) else None


def last_of_machine(state_home: Path) -> RememberedStack | None:
    """Return the stack that this user started last, from whichever installation, if any of it is left."""
    newest = _read(_file(state_home))
    return newest if newest is not None and newest.exists else None


def remember(state_home: Path, state_dir: Path, installation: Path) -> None:
    """Make this directory the default of an installation. Raises: OSError."""
    text = json.dumps({"state_dir": str(state_dir), "installation": str(installation)}) + "\n"
    # The second is for versions that know of no installations, and for who has started no stack.
    for file in (_own_file(state_home, installation), _file(state_home)):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, text, private=True)


def resolve_state_dir(given: Path | None, state_home: Path, installation: Path) -> Path:
    """Return the directory that a command means: as given, the installation's last one, or its usual one."""
    return given or last(state_home, installation) or _usual(state_home, installation)


def other_owner(state_dir: Path, installation: Path, recorded: Path | None = None) -> Path | None:
    """Return the installation that a stack belongs to, if that is another one that still exists; else None.

    recorded: what is known of it, where its directory says nothing.
    """
    try:
        stack = state.load(state_dir)
    except RefusedError:  # damaged: it is said where it is used
        return None
    owner = recorded if stack is None else stack.installation
    return owner if owner is not None and owner != installation and owner.is_dir() else None


def _usual(state_home: Path, installation: Path) -> Path:
    """Return where an installation keeps its stack unless it is set otherwise."""
    common = (state_home / "daggers" / "local").absolute()  # everybody's, before this rule
    if (common / state.FILE).exists() and other_owner(common, installation) is None:
        return common
    return common.with_name(f"local-{_key(installation)}")


def _read(file: Path) -> RememberedStack | None:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        owner = raw.get("installation")
        return RememberedStack(Path(raw["state_dir"]), Path(owner) if owner else None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _own_file(state_home: Path, installation: Path) -> Path:
    return state_home / "daggers" / "last-stacks" / f"{_key(installation)}.json"


def _file(state_home: Path) -> Path:
    return state_home / "daggers" / "last-stack.json"


def _key(installation: Path) -> str:
    """Return a short name of an installation that no other one of the machine has."""
    return hashlib.sha256(str(installation).encode()).hexdigest()[:8]
