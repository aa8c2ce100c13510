"""Becomes a user of this host for good, then another program.

    python -I -m scheduler.drivers.become UID GID,GROUP… PROGRAM WORD…

Who starts a program so does not fork: the option `user` of `subprocess` does, and a fork of a process that
speaks gRPC crashes now and then, in what gRPC has a child do.
"""

from __future__ import annotations

import os
import sys


def main(argv: list[str]) -> None:
    """Give up all rights but the user's, and run the program in this one's place."""
    uid, groups, *command = argv
    gids = [int(group) for group in groups.split(",")]
    os.setgroups(gids)
    os.setgid(gids[0])
    os.setuid(int(uid))
    os.execv(command[0], command)  # noqa: S606 - no shell


if __name__ == "__main__":
    main(sys.argv[1:])
