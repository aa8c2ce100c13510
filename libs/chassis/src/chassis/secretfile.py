"""A secret out of a file that somebody else named: of a tenant's team, on this host."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from daggerspec.fields import is_no_file
from daggerspec.secrets import MAX_BYTES


class UnreadableError(Exception):
    """There is no secret. The text says why, without what stands in the file."""


def content(path: str) -> str:
    """Read the text of a regular file of at most 64 KiB, unchanged. Raises: UnreadableError."""
    try:
        return _bytes(path).decode()
    except UnicodeDecodeError:
        raise UnreadableError("it is not UTF-8 text") from None
    except ValueError:  # a NUL in it
        raise UnreadableError("no file has such a name") from None
    except OSError as problem:
        raise UnreadableError(str(problem.strerror)) from None


def _bytes(path: str) -> bytes:
    if is_no_file(path):
        raise UnreadableError("it is not a regular file")
    # A pipe that nobody writes to would hold the open up for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_dev in _kernels():
            raise UnreadableError("it is not a regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"it has more than {MAX_BYTES // 1024} KiB")
    return data


def _kernels() -> set[int]:
    """Return the devices of the kernel's files, such as environments of processes, which look regular."""
    devices = set()
    for root in ("/proc", "/sys"):
        with suppress(OSError):
            devices.add(Path(root).stat().st_dev)
    return devices
