"""The state directory of the user's last `daggers local up`: the default of every command."""

import json
from pathlib import Path

from chassis.files import replace_text
from devstack import processes


def last(state_home: Path) -> Path | None:
    """The last directory, if one is remembered and still there, or something of its stack still runs."""
    try:
        folder = Path(json.loads(_file(state_home).read_text(encoding="utf-8"))["state_dir"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return folder if folder.is_dir() or processes.marked(folder) else None


def remember(state_home: Path, state_dir: Path) -> None:
    """Make this directory the default."""
    file = _file(state_home)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, json.dumps({"state_dir": str(state_dir)}) + "\n", private=True)


def meant(given: Path | None, state_home: Path) -> Path:
    """The directory that a command means: as given, the last one, or the usual one."""
    return given or last(state_home) or (state_home / "daggers" / "local").absolute()


def _file(state_home: Path) -> Path:
    return state_home / "daggers" / "last-stack.json"
