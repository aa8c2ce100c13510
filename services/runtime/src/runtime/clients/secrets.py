"""Secrets by reference, resolved at the moment of use; kept by the clients that use them, and to be hidden.

A secret goes to the servers that its reference names, and to no others: whatever led here, a value that may
not be sent somewhere is not even read.
"""

import os

from daggers.v1 import spec_pb2

from chassis import secretfile
from daggerspec import address
from runtime.errors import external
from runtime.hiding import hide


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
                value = secretfile.content(reference.file)
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
