"""Secrets by reference, resolved at the moment of use and kept nowhere.

A secret goes to the servers that its reference names, and to no others: whatever led here, a value that may
not be sent somewhere is not even read.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from daggers.v1 import spec_pb2

from daggerspec import address
from daggerspec.fields import is_no_file
from daggerspec.secrets import MAX_BYTES
from runtime.errors import external


def resolve(reference: spec_pb2.SecretRef, to: str) -> str:
    """The secret that `reference` names, trailing white space dropped, to be sent to `to`: a URL, or
    host:port,host:port ….

    Raises `JobError` (EXTERNAL) that names the reference, never the value, when it may not be sent there, or
    there is nothing to read.
    """
    if reference.addresses and not address.covers(reference.addresses, to):
        allowed = ", ".join(reference.addresses)
        raise external("SECRET_ADDRESS", f"The secret for {to} may be sent only to {allowed}.")
    match reference.WhichOneof("source"):
        case "env":
            # The names are data of the job, so no settings class can list them.
            value = os.environ.get(reference.env)  # noqa: TID251 - see the line above
            if value is None:
                raise external(
                    "SECRET_MISSING",
                    f"The environment variable {reference.env!r} of the runtime is not set; "
                    "set it where the scheduler runs, or name another in the secret's reference.",
                )
            source = f"the environment variable {reference.env!r}"
        case "file":
            try:
                value = _content(reference.file)
            except (OSError, UnicodeDecodeError) as problem:
                why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
                raise external(
                    "SECRET_MISSING", f"The secret file {reference.file!r} cannot be read: {why}."
                ) from None
            source = f"the secret file {reference.file!r}"
        case _:
            raise external("SECRET_MISSING", "A secret's reference names neither `env` nor `file`.")
    if not (secret := value.rstrip()):
        raise external("SECRET_MISSING", f"There is nothing in {source}.")
    return secret


def _content(path: str) -> str:
    """The text of a regular file of 64 KiB at most. Raises: OSError, UnicodeDecodeError."""
    if is_no_file(path):
        raise OSError(0, "it is not a regular file")
    # A pipe that nobody writes to would hold the open up for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_dev in _kernels():
            raise OSError(0, "it is not a regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(0, f"it has more than {MAX_BYTES // 1024} KiB")
    return data.decode()


def _kernels() -> set[int]:
    """The devices of what looks like regular files, and is the kernel's: environments of processes."""
    devices = set()
    for root in ("/proc", "/sys"):
        with suppress(OSError):
            devices.add(Path(root).stat().st_dev)
    return devices
