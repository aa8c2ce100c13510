"""Refusals of this machine: permissions, space, a disk. They are mistakes neither of ours nor of the
platform.
"""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path
from typing import Final

from cli.errors import RefusedError

_RIGHTS: Final = {errno.EACCES, errno.EPERM}
_STATES: Final = {
    *_RIGHTS, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM,
    errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR,
}  # fmt: skip


def refusal(error: OSError, place: Path | None = None) -> RefusedError:
    """Describe a file or folder that cannot be used, with its owner where it is another user's.

    place: the file or folder, where the error names none.
    """
    where = error.filename or place
    text = f"{where}: {error.strerror}" if where else error.strerror or str(error)
    if where and error.errno in _RIGHTS and (whose := _another_users(Path(os.fsdecode(where)))):
        text += f" ({whose}; you are {_name(os.geteuid())})"
    return RefusedError(text, reason="FILE_UNUSABLE")


def is_refused(error: OSError) -> bool:
    """Return whether an error is about this machine's state, and names a file."""
    return error.errno in _STATES and bool(error.filename)


def _another_users(path: Path) -> str:
    """Return whose a file is, or the first readable folder above it; empty for the user's own."""
    for place in (path, *path.absolute().parents):
        try:
            owner = place.stat().st_uid
        except OSError:
            continue
        subject = "it" if place == path else place
        return "" if owner == os.geteuid() else f"{subject} is {_name(owner)}'s"
    return ""


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
