"""Errors as they cross the wire, both directions: AIP style, google.rpc.Status with details.

    ErrorInfo    reason (UPPER_SNAKE), domain "daggers", metadata: for programs
    BadRequest   every field violation at once: field path, description, reason
    RequestInfo  the request id, which the server's log line carries too
    RetryInfo    when trying again may help

A finding in SQL is a violation of the field that holds the SQL (`daggerspec.violation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, cast

import grpc
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped] # ships .pyi, no py.typed
from grpc_status import rpc_status

from daggerspec.violation import Violation

DOMAIN: Final = "daggers"
# gRPC clients take 8 KiB of metadata by default, and details travel there in base64.
_DETAILS_LIMIT: Final = 5_000
_MESSAGE_LIMIT: Final = 500


# Not frozen: contextlib sets the traceback of an exception that passes through it.
@dataclass(eq=False)
class ApiError(Exception):
    """A refusal or failure as a caller sees it."""

    code: grpc.StatusCode
    reason: str
    """UPPER_SNAKE, for programs."""
    message: str
    """One sentence for a person: no stack trace, no secret."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    violations: Sequence[Violation] = ()
    request_id: str = ""
    retry_after: timedelta | None = None

    def __str__(self) -> str:
        return self.message

    def to_status(self) -> status_pb2.Status:
        """The wire form. Violations beyond a client's metadata limit are counted in the last one."""
        status = status_pb2.Status(code=self.code.value[0], message=_cut(self.message, _MESSAGE_LIMIT))
        _pack(status, error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.metadata))
        if self.request_id:
            _pack(status, error_details_pb2.RequestInfo(request_id=self.request_id))
        if self.retry_after is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromTimedelta(self.retry_after)
            _pack(status, retry)
        if self.violations:
            _pack(status, _bad_request(self.violations, _DETAILS_LIMIT - status.ByteSize()))
        return status


def invalid(violations: Sequence[Violation]) -> ApiError:
    """INVALID_ARGUMENT with every violation."""
    first = violations[0]
    what = first.description.partition("\n")[0]
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return ApiError(
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_FIELDS",
        f"{first.field}: {what}{more}",
        violations=tuple(violations),
    )


def from_status(status: status_pb2.Status) -> ApiError:
    """The error behind a wire form, whoever wrote it."""
    code = next((c for c in grpc.StatusCode if c.value[0] == status.code), grpc.StatusCode.UNKNOWN)
    error = ApiError(code, code.name, status.message)
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    request = error_details_pb2.RequestInfo()
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        if detail.Unpack(info):
            error = replace(error, reason=info.reason, metadata=dict(info.metadata))
        elif detail.Unpack(bad):
            found = tuple(Violation(v.field, v.description, v.reason) for v in bad.field_violations)
            error = replace(error, violations=found)
        elif detail.Unpack(request):
            error = replace(error, request_id=request.request_id)
        elif detail.Unpack(retry):
            error = replace(error, retry_after=retry.retry_delay.ToTimedelta())
    return error


def from_rpc_error(error: grpc.RpcError) -> ApiError:
    """The error behind a failed call, of a synchronous or an asyncio channel."""
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return ApiError(grpc.StatusCode.UNKNOWN, "UNKNOWN", str(error))
    try:
        status = rpc_status.from_call(cast(grpc.Call, error))  # asks both for the same three methods
    except ValueError:
        status = None
    if status is not None:
        return from_status(status)
    code = error.code() or grpc.StatusCode.UNKNOWN
    return ApiError(code, code.name, error.details() or code.name)


def _pack(
    status: status_pb2.Status,
    detail: error_details_pb2.ErrorInfo
    | error_details_pb2.BadRequest
    | error_details_pb2.RequestInfo
    | error_details_pb2.RetryInfo,
) -> None:
    status.details.add().Pack(detail)


def _bad_request(violations: Sequence[Violation], room: int) -> error_details_pb2.BadRequest:
    bad = error_details_pb2.BadRequest()
    for number, violation in enumerate(violations):
        entry = bad.field_violations.add(
            field=_cut(violation.field, 200),
            description=_cut(violation.description, 600),
            reason=violation.reason,
        )
        if bad.ByteSize() > room - 100 and number:
            left = len(violations) - number
            entry.CopyFrom(
                error_details_pb2.BadRequest.FieldViolation(
                    field=_cut(violation.field, 50), description=f"and {left} more", reason="MORE"
                )
            )
            break
    return bad


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
