"""Files that another process, or another thread, reads at any time."""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

MOST_READ: Final = 64 * 1024 * 1024
"""Bytes of a file that are read at once."""


def make_private(folder: Path) -> Path:
    """Make a folder that nobody else may look into, or make it so where it is there. Raises: OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading that the owner of its folder has written.

    Another user, whose folder it is, may have put something else there: what is no regular file of theirs, a
    link or a pipe, counts as not there. Raises: OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _absent(path) from error
        raise
    state = os.fstat(descriptor)
    if stat.S_ISREG(state.st_mode) and state.st_uid == path.parent.stat().st_uid:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise _absent(path)


def _absent(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def read_plain(path: Path) -> bytes:
    """Read such a file, its first `MOST_READ` bytes. Raises: OSError."""
    with open_plain(path) as file:
        return file.read(MOST_READ)


def touch(path: Path) -> None:
    """Make an empty file where nothing has its name; what has it stays as it is. Raises: OSError."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))


def replace_text(path: Path, text: str, *, durable: bool = False, private: bool = False) -> None:
    """Make `text` the content of a file, as `replace_bytes` does."""
    replace_bytes(path, text.encode(), durable=durable, private=private)


def replace_bytes(path: Path, content: bytes, *, durable: bool = False, private: bool = False) -> None:
    """Make `content` all of a file in one step: who reads sees the old content or the new one, whole.

    `durable`: also after a power cut. `private`: no other user can read it, at any moment. Of several
    writers at once, one's content stays. No link is followed. Raises: OSError.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    mode = 0o600 if private else 0o666
    with open(fresh, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, mode)) as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)
