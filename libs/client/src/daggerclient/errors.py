"""Errors of a call, a wait or a file.

ClientError
├── RefusedError           the gateway refused the request, and says why
├── UnreachableError       nobody answered, or who answered cannot reach what it needs
│   └── OutcomeUnknownError  the request may have been taken all the same
├── NotReachedError        the wanted state was not reached: FAILED, or the time is over
├── NotCompletedError      records were not in every sink within the time
├── SettingError           an address, an authority or a token that cannot be used
└── InvalidFileError       a dagger file that cannot be read as one
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any

import grpc
from daggers.v1 import gateway_pb2

from chassis.errors import ApiError
from daggerspec.violation import Violation

UNREACHED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
KNOWS_NOT = {
    grpc.StatusCode.UNAUTHENTICATED: "does not know this user",
    grpc.StatusCode.UNIMPLEMENTED: "does not know this call: it is older than its client, upgrade it",
}


class ClientError(Exception):
    """Anything of this package's. `message` is one sentence, `reason` an UPPER_SNAKE code for programs."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


class RefusedError(ClientError):
    """The gateway refused the request: the AIP code, every violation, and the id to ask its log for.

    metadata: what its sentence says, for programs.
    """

    def __init__(self, error: ApiError, message: str = "") -> None:
        super().__init__(message or error.message, error.reason)
        self.code: grpc.StatusCode = error.code
        self.violations: Sequence[Violation] = error.violations
        self.request_id = error.request_id
        self.metadata: Mapping[str, str] = error.metadata


class Silence(Enum):
    """Reasons for which no answer came, as far as the transport tells."""

    NOBODY = auto()
    LATE = auto()
    NO_TLS = auto()
    UNTRUSTED = auto()
    CLOSED = auto()


SAID = {
    Silence.NOBODY: "does not answer",
    Silence.LATE: "did not answer in time",
    Silence.NO_TLS: "does not speak TLS",
    Silence.UNTRUSTED: "has a certificate that is not trusted here",
    Silence.CLOSED: "closed the connection",
}


class UnreachableError(ClientError):
    """No answer to build on.

    silence: why nobody answered; None when the gateway did, and says itself what it cannot reach.
    cause:   the transport's own words.
    """

    def __init__(
        self, message: str, reason: str, *, address: str, silence: Silence | None = None, cause: str = ""
    ) -> None:
        super().__init__(message, reason)
        self.address = address
        self.silence = silence
        self.cause = cause


class OutcomeUnknownError(UnreachableError):
    """Nobody knows what came of a request. The same one under the same id, asked again, counts once.

    name: the dagger it was about, if any.
    """

    def __init__(self, doubt: str, *, address: str, request_id: str, name: str) -> None:
        message = f"the outcome is unknown: {doubt}, and it may still take effect"
        super().__init__(message, "OUTCOME_UNKNOWN", address=address)
        self.request_id = request_id
        self.name = name


class NotReachedError(ClientError):
    """The wait is over without what was wanted. `dagger` is as it was seen last."""

    def __init__(self, dagger: gateway_pb2.Dagger, message: str) -> None:
        super().__init__(message, "FAILED" if dagger.phase == gateway_pb2.FAILED else "NOT_REACHED")
        self.dagger = dagger


class NotCompletedError(ClientError):
    """The wait is over, and records are not in every sink yet. `behind` says which are missing where."""

    def __init__(self, answer: gateway_pb2.WaitCompletedResponse, timeout_s: float) -> None:
        first = answer.behind[0]
        reached = f"up to {first.completed}" if first.HasField("completed") else "nothing of it"
        done = f"{first.dagger} has completed {reached} of {first.partition}"
        super().__init__(f"{done}, not {first.offset}, after {timeout_s:g} s", "NOT_COMPLETED")
        self.behind = tuple(answer.behind)


class SettingError(ClientError):
    """A setting of the client that cannot be used. `setting` is address, ca_file or token_file."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message, "BAD_SETTING")
        self.setting = setting


class InvalidFileError(ClientError):
    """A dagger file that is not one.

    findings: all that is wrong, each with code, severity, field, message, file, line, column, suggestion.
    """

    def __init__(self, message: str, findings: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message, "INVALID_FILE")
        self.findings = tuple(findings)


def failure(error: ApiError, address: str) -> ClientError:
    """Build the error that a failed call of the gateway at `address` raises."""
    if error.code not in UNREACHED:
        problem, hint = KNOWS_NOT.get(error.code), error.metadata.get("token_hint")
        more = f" ({hint})" if hint else ""
        return RefusedError(error, f"the gateway at {address} {problem}{more}" if problem else "")
    if error.reason != error.code.name:
        return UnreachableError(error.message, error.reason, address=address)
    silence = _silence(error)
    return UnreachableError(
        f"the gateway at {address} {SAID[silence]}",
        error.reason,
        address=address,
        silence=silence,
        cause=error.message,
    )


def _silence(error: ApiError) -> Silence:
    cause = error.message.lower()
    if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Silence.LATE
    if "wrong_version_number" in cause:
        return Silence.NO_TLS
    if "handshake" in cause:
        return Silence.UNTRUSTED
    return Silence.CLOSED if "socket closed" in cause else Silence.NOBODY
