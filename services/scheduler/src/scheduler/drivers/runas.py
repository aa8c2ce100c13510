"""The users that drivers run as, by team: what one team's driver has on this host no other team's can read.

The directory of a launch and the checkpoints of its dagger are the user's alone. The scheduler, which is
root's then, still finds, drains and kills its drivers, and reads what they leave.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from daggerspec import fields

_ANY: Final = "*"
_CHECK_S: Final = 30.0
_LOOK: Final = """
import os, sys, scheduler.drivers.wrapper
os.stat(os.path.join(sys.argv[1], "."))
for place in sys.argv[2:]:
    os.listdir(place) if os.path.isdir(place) else open(place).close()
"""
_READ: Final = 0o4
_GO_THROUGH: Final = 0o1


@dataclass(frozen=True, slots=True)
class User:
    """A user of this host."""

    name: str
    uid: int
    gid: int
    home: str

    def groups(self) -> list[int]:
        """Return the ids of the groups that this host has the user in."""
        return os.getgrouplist(self.name, self.gid)

    def command(self) -> tuple[str, ...]:
        """Return the words that have the command behind them run as this user."""
        groups = dict.fromkeys((self.gid, *self.groups()))
        return (
            sys.executable,
            "-I",
            "-m",
            "scheduler.drivers.become",
            str(self.uid),
            ",".join(map(str, groups)),
        )

    def environment(self) -> Mapping[str, str]:
        """Return what tells a process whose it is."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


@dataclass(frozen=True, slots=True)
class RunAs:
    """Users by team."""

    by_team: Mapping[str, User] = field(default_factory=dict)
    """`*` stands for all teams that are not named."""

    def user(self, team: str) -> User | None:
        """Return the user of a team's drivers; None: the scheduler's own."""
        return self.by_team.get(team) or self.by_team.get(_ANY)

    def __bool__(self) -> bool:
        """Return whether any team has a user of its own."""
        return bool(self.by_team)


def parse(text: str) -> RunAs:
    """Read a setting: TEAM=USER each, separated by spaces. Raises: ValueError."""
    by_team: dict[str, User] = {}
    for word in text.split():
        team, separator, name = word.partition("=")
        if not separator or not name or (team != _ANY and list(fields.team("team", team))):
            raise ValueError(f"{word} must be TEAM=USER, or *=USER for all teams that are not named")
        if team in by_team:
            raise ValueError(f"team {team} is named twice")
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise ValueError(f"there is no user {name} on this host") from None
        if entry.pw_uid == 0:
            raise ValueError(f"team {team}'s drivers must not run as root")
        by_team[team] = _user(entry)
    return RunAs(by_team)


def open_way(folder: Path) -> None:
    """Let users go through a folder to what is theirs below it, and look at nothing. Raises: OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)


def hand_over(folder: Path, user: User) -> None:
    """Make a folder, with all that is in it, a user's alone; made where it is not there. Raises: OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if folder.stat().st_uid != user.uid:
        # By descriptors: a link that its last user puts in the way leads nowhere.
        for _, folders, files, descriptor in os.fwalk(folder):
            for name in (*folders, *files):
                os.chown(name, user.uid, user.gid, dir_fd=descriptor, follow_symlinks=False)
        os.chown(folder, user.uid, user.gid)  # at last: it says that all of it was done


def hand_over_file(file: Path) -> None:
    """Make a file that root has written that user's whose the folder is. Raises: OSError."""
    owner = file.parent.stat()
    if owner.st_uid != os.geteuid():
        os.chown(file, owner.st_uid, owner.st_gid, follow_symlinks=False)


def owner(folder: Path) -> User | None:
    """Return the user whose a launch's directory is; None: the scheduler's own. Raises: FileNotFoundError."""
    state = folder.stat()
    if state.st_uid == os.geteuid():
        return None
    try:
        entry = pwd.getpwuid(state.st_uid)
    except KeyError:  # who was removed from this host since
        return User(str(state.st_uid), state.st_uid, state.st_gid, "/")
    return _user(entry)


def _user(entry: pwd.struct_passwd) -> User:
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def obstacle(user: User, folder: Path, python: str, java: str, read: Sequence[Path] = ()) -> str:
    """Return why a user's drivers could not run below a folder, in a sentence; empty where they could.

    Python and Java are started as that user; Python goes into the folder, and opens what is to be `read`:
    files and folders of the installation.
    """
    places = [str(folder), *map(str, read)]
    for program in ((python, "-P", "-c", _LOOK, *places), (java, "-version")):
        try:
            done = subprocess.run(
                program, cwd="/", env={**user.environment(), "LC_ALL": "C.UTF-8"},
                user=user.uid, group=user.gid, extra_groups=user.groups(),
                check=False, capture_output=True, text=True, timeout=_CHECK_S,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            why = getattr(error, "strerror", None) or "it does not answer"
        else:
            why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            if done.returncode == 0:
                continue
        closed = next(filter(None, (closed_to(user, Path(place)) for place in (program[0], *places))), None)
        behind = f"; {closed} is closed to that user" if closed is not None else ""
        return f"no driver can run as the user {user.name} ({program[0]}): {why}{behind}"
    return ""


def closed_to(user: User, place: Path) -> Path | None:
    """Return the first folder on the way to a place that a user may not go through, or the place, unreadable.

    None where modes of files tell of none. Raises: no error for what is not there, which is closed to nobody.
    """
    groups = {user.gid, *user.groups()}
    for way in dict.fromkeys((place.absolute(), Path(os.path.realpath(place)))):
        for part in (*reversed(way.parents), way):
            try:
                state = part.stat()
            except OSError:
                return None
            shift = 6 if state.st_uid == user.uid else 3 if state.st_gid in groups else 0
            needed = _READ if part == way and not stat.S_ISDIR(state.st_mode) else _GO_THROUGH
            if not state.st_mode >> shift & needed:
                return part
    return None
