"""Collect problems with the flags of a command, so that all of them are reported at once."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from daggers.v1 import spec_pb2

from cli.errors import MisusedError, RefusedError, UnreachableError
from daggerclient.findings import headline


class UsageErrors:
    """Collects findings about flags; each has code, field (the flag) and message."""

    def __init__(self) -> None:
        self.findings: list[dict[str, Any]] = []

    def add(self, flag: str, message: str, code: str = "BAD_VALUE") -> None:
        """Add a problem with a flag. `message` must not repeat a value that may be a secret."""
        self.findings.append({"code": code, "field": flag, "message": message})

    def pair(self, flag: str, text: str) -> tuple[str, str] | None:
        """Parse NAME=VALUE; return None, and add a problem, for anything else."""
        name, equals, value = text.partition("=")
        if name and equals:
            return name, value
        self.add(flag, "must be NAME=VALUE")
        return None

    def reference(self, flag: str, text: str) -> spec_pb2.SecretRef | None:
        """Parse a reference env:VARIABLE or file:PATH; return None, and add a problem, for anything else."""
        kind, _, where = text.partition(":")
        if kind in ("env", "file") and where:
            return spec_pb2.SecretRef(**{kind: where})
        # what was given may be the secret itself: it is not repeated
        self.add(
            flag, "must be a reference, env:VARIABLE or file:PATH, not the secret itself", "INLINE_SECRET"
        )
        return None

    def refuse(self, check: Callable[[], object] = lambda: None) -> None:
        """Raise all problems where there are any, with those that `check` is refused for, if the gateway
        answers.

        Raises: MisusedError.
        """
        if not self.findings:
            return
        with suppress(UnreachableError):
            try:
                check()
            except RefusedError as refusal:
                self.findings += map(dict, refusal.findings)
        raise MisusedError(headline(self.findings), findings=self.findings)
