"""Resolve references of secrets at the moment of use, and hide the values from logs.

A secret may go only to the servers that its reference names: for any other server its value is not even read.
"""

import os
import time
from typing import Final

from daggers.v1 import spec_pb2

from chassis import secretfile
from daggerspec import address
from runtime.errors import external
from runtime.hiding import hide

_REPLACE_S: Final = 0.5
"""Time for which a file may be empty while its text is replaced, by `>` or an editor."""
_RETRY_S: Final = 0.02


def resolve(reference: spec_pb2.SecretRef, to: str) -> str:
    """Return the secret that `reference` names, without trailing white space, to be sent to `to`.

    to: a URL, or host:port,host:port ….

    Raises: JobError (EXTERNAL) that names the reference, never the value, where the secret may not be sent
    there, or cannot be read.
    """
    if reference.addresses and not address.covers(reference.addresses, to):
        allowed = ", ".join(reference.addresses)
        raise external("SECRET_ADDRESS", f"The secret for {to} may be sent only to {allowed}.")
    match reference.WhichOneof("source"):
        case "env":
            # names are data of the job: no settings class can list them
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
                value = _read_file(reference.file)
            except secretfile.UnreadableError as why:
                raise external(
                    "SECRET_MISSING", f"The secret file {reference.file!r} cannot be read: {why}."
                ) from None
            source = f"the secret file {reference.file!r}"
        case _:
            raise external("SECRET_MISSING", "A secret's reference names neither `env` nor `file`.")
    if not (secret := value.rstrip()):
        raise external("SECRET_MISSING", f"There is nothing in {source}.")
    hide(secret)
    return secret


def _read_file(file: str) -> str:
    """Read a secret's file, again for half a second while it is empty. Raises: UnreadableError.

    Whoever replaces the text may empty the file first, and a driver without its secret ends.
    """
    end = time.monotonic() + _REPLACE_S
    while not (text := secretfile.content(file)) and time.monotonic() < end:
        time.sleep(_RETRY_S)
    return text
