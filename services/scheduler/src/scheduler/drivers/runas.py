"""The users that drivers run as, by team: what one team's driver has on this host no other team's can read.

The directory of a launch and the checkpoints of its dagger are the user's alone. The scheduler, which is
root's then, still finds, drains and kills its drivers, and reads what they leave.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from daggerspec import fields

_ANY: Final = "*"
_CHECK_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class User:
    """A user of this host."""

    name: str
    uid: int
    gid: int
    home: str

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
        by_team[team] = User(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)
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


def obstacle(user: User, folder: Path, python: str, java: str) -> str:
    """Return why a user's drivers could not run below a folder, in a sentence; empty where they could.

    Python and Java are started as that user, and Python goes into the folder.
    """
    look = "import os, sys, scheduler.drivers.wrapper; os.stat(os.path.join(sys.argv[1], '.'))"
    for program in ((python, "-P", "-c", look, str(folder)), (java, "-version")):
        try:
            done = subprocess.run(
                program, cwd="/", env={**user.environment(), "LC_ALL": "C.UTF-8"},
                user=user.uid, group=user.gid, extra_groups=(),
                check=False, capture_output=True, text=True, timeout=_CHECK_S,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            why = getattr(error, "strerror", None) or "it does not answer"
        else:
            why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            if done.returncode == 0:
                continue
        return f"no driver can run as the user {user.name} ({program[0]}): {why}"
    return ""
