"""What this machine refuses: rights, room, a disk. No mistake of ours, and nothing of the platform's."""

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
    """One sentence about a file or folder that cannot be used; of another user's it says whose it is.

    place: what was to be used, where the error names nothing.
    """
    where = error.filename or place
    text = f"{where}: {error.strerror}" if where else error.strerror or str(error)
    if where and error.errno in _RIGHTS and (whose := _another_users(Path(os.fsdecode(where)))):
        text += f" ({whose}; you are {_name(os.geteuid())})"
    return RefusedError(text, reason="FILE_UNUSABLE")


def is_refused(error: OSError) -> bool:
    """Whether an error is about this machine's state, and names a file."""
    return error.errno in _STATES and bool(error.filename)


def _another_users(path: Path) -> str:
    """Whose a file is, or the first folder above it that can be looked at; empty for one's own."""
    for place in (path, *path.absolute().parents):
        try:
            owner = place.stat().st_uid
        except OSError:
            continue
        what = "it" if place == path else place
        return "" if owner == os.geteuid() else f"{what} is {_name(owner)}'s"
    return ""


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
