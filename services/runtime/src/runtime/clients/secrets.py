"""Secrets by reference, resolved at the moment of use; kept by the clients that use them, and to be hidden.

A secret goes to the servers that its reference names, and to no others: whatever led here, a value that may
not be sent somewhere is not even read.
"""

import os
import time
from typing import Final

from daggers.v1 import spec_pb2

from chassis import secretfile
from daggerspec import address
from runtime.errors import external
from runtime.hiding import hide

_REPLACED_S: Final = 0.5
"""So long an empty file may be one whose text is being replaced, by `>` or an editor."""
_AGAIN_S: Final = 0.02


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


def _content(file: str) -> str:
    """Read a secret's file, again for half a second while it is empty. Raises: UnreadableError.

    Who replaces its text empties it first, and a driver ends where there is no secret.
    """
    end = time.monotonic() + _REPLACED_S
    while not (text := secretfile.content(file)) and time.monotonic() < end:
        time.sleep(_AGAIN_S)
    return text
