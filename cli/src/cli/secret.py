"""Secrets by reference, resolved in this process."""

from pathlib import Path

from daggers.v1 import spec_pb2

from cli.environment import environment
from cli.errors import RefusedError


def resolve(reference: spec_pb2.SecretRef) -> str | None:
    """The secret; None when there is no reference. Raises RefusedError when it cannot be read here."""
    match reference.WhichOneof("source"):
        case "env":
            value = environment().get(reference.env)
            if value is None:
                raise RefusedError(
                    f"the secret {{env: {reference.env}}} is not set here: set that variable and try again",
                    reason="SECRET_MISSING",
                )
            return value
        case "file":
            try:
                return Path(reference.file).read_text(encoding="utf-8").rstrip()
            except (OSError, UnicodeDecodeError) as error:
                raise RefusedError(
                    f"the secret {{file: {reference.file}}} cannot be read here", reason="SECRET_MISSING"
                ) from error
        case _:
            return None
