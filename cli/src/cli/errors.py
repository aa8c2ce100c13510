"""Errors that end a command early, with their exit codes.

CliError
├── RefusedError      1  the request was refused, or the wanted state was not reached: its reason says why
├── MisusedError      2  the command line is wrong: its reason is always USAGE
├── UnreachableError  3  a service that the command needs does not answer
└── UnwrittenError    4  the answer cannot be written
"""

from collections.abc import Mapping, Sequence
from typing import Any


class CliError(Exception):
    """Ends the command with one sentence for a person.

    message:  one sentence: what is wrong, where, and what to do.
    reason:   UPPER_SNAKE code for programs.
    findings: everything that is wrong, when there is more to say; each has at least `code` and `message`.
    detail:   further keys for the JSON document's `error` object.

    answered tells that the JSON document of the command stands on stdout already, as far as it came.
    """

    exit_code = 1
    answered = False

    def __init__(
        self,
        message: str,
        *,
        reason: str = "REFUSED",
        findings: Sequence[Mapping[str, Any]] = (),
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.findings = tuple(findings)
        self.detail = dict(detail or {})

    def document(self) -> dict[str, Any]:
        """Build the JSON document that stands on stdout in place of the result."""
        return {
            "error": {
                "reason": self.reason,
                "message": self.message,
                "findings": [dict(finding) for finding in self.findings],
                **self.detail,
            }
        }


class RefusedError(CliError):
    """The request was refused, or the wanted state was not reached."""


class MisusedError(CliError):
    """The command line is wrong."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        findings: Sequence[Mapping[str, Any]] = (),
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, reason="USAGE", findings=findings, detail=detail)


class UnwrittenError(CliError):
    """The answer cannot be written; who made it says so on stderr alone."""

    exit_code = 4


class UnreachableError(CliError):
    """A service that the command needs does not answer."""

    exit_code = 3
