"""Secrets by reference, resolved at the moment of use and kept nowhere."""

import os
from pathlib import Path

from daggers.v1 import spec_pb2

from runtime.errors import external


def resolve(reference: spec_pb2.SecretRef) -> str:
    """The secret that `reference` names, trailing white space dropped.

    Raises `JobError` (EXTERNAL) that names the reference, never the value, when there is nothing to read.
    """
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
                value = Path(reference.file).read_text(encoding="utf-8")
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
