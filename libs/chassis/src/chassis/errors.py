"""Errors as they cross the wire, both directions: AIP style, google.rpc.Status with details.

    ErrorInfo    reason (UPPER_SNAKE), domain "daggers", metadata: for programs
    Findings     everything that is wrong (daggers.v1), with places and suggestions apart
    BadRequest   the same as text, for clients that know only google.rpc: field path, description, reason
    RequestInfo  the request id, which the server's log line carries too
    RetryInfo    when trying again may help

A finding in SQL is a violation of the field that holds the SQL (`daggerspec.violation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Final, cast

import grpc
from daggers.v1 import gateway_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped] # ships .pyi, no py.typed
from grpc_status import rpc_status

from daggerspec.violation import Edit, Violation

DOMAIN: Final = "daggers"
# gRPC clients take 8 KiB of metadata by default, and details travel there in base64.
_DETAILS_LIMIT: Final = 5_000
_MESSAGE_LIMIT: Final = 500
_TEXT_LIMIT: Final = 600
_FIELD_LIMIT: Final = 200


# Not frozen: contextlib sets the traceback of an exception that passes through it.
@dataclass(eq=False)
class ApiError(Exception):
    """A refusal or failure as a caller sees it."""

    code: grpc.StatusCode
    reason: str
    """UPPER_SNAKE, for programs."""
    message: str
    """One sentence for a person: no stack trace, no secret."""
    metadata: Mapping[str, str]
    """Facts of the message for programs: object, value, limit. May be empty."""
    violations: Sequence[Violation] = ()
    request_id: str = ""
    retry_after: timedelta | None = None

    def __str__(self) -> str:
        return self.message

    def to_status(self) -> status_pb2.Status:
        """Convert to the wire form. Violations beyond a client's metadata limit are counted in the last."""
        status = status_pb2.Status(code=self.code.value[0], message=_cut(self.message, _MESSAGE_LIMIT))
        metadata = {key: _cut(value, _FIELD_LIMIT) for key, value in self.metadata.items()}
        _pack(status, error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=metadata))
        if self.request_id:
            _pack(status, error_details_pb2.RequestInfo(request_id=self.request_id))
        if self.retry_after is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromTimedelta(self.retry_after)
            _pack(status, retry)
        if self.violations:
            room = _DETAILS_LIMIT - status.ByteSize()
            _pack(status, _findings(self.violations, room * 2 // 3))
            _pack(status, _bad_request(self.violations, _DETAILS_LIMIT - status.ByteSize()))
        return status


def invalid(violations: Sequence[Violation]) -> ApiError:
    """Build INVALID_ARGUMENT of violations; its metadata is that of the first, and their number."""
    first = violations[0]
    text = first.description.partition("\n")[0]
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return ApiError(
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_FIELDS",
        f"{first.field}: {text}{more}",
        {"count": str(len(violations)), "field": first.field, **first.metadata},
        violations=tuple(violations),
    )


def from_status(status: status_pb2.Status) -> ApiError:
    """Convert the wire form to an error, also one of another server."""
    code = next((c for c in grpc.StatusCode if c.value[0] == status.code), grpc.StatusCode.UNKNOWN)
    error = ApiError(code, code.name, status.message, {})
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    findings = gateway_pb2.Findings()
    request = error_details_pb2.RequestInfo()
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        if detail.Unpack(info):
            error = replace(error, reason=info.reason, metadata=dict(info.metadata))
        elif detail.Unpack(findings):
            error = replace(error, violations=tuple(map(violation, findings.findings)))
        elif detail.Unpack(bad) and not error.violations:  # from who has no Findings: its text as it is
            violations = tuple(Violation(v.field, v.description, v.reason) for v in bad.field_violations)
            error = replace(error, violations=violations)
        elif detail.Unpack(request):
            error = replace(error, request_id=request.request_id)
        elif detail.Unpack(retry):
            error = replace(error, retry_after=retry.retry_delay.ToTimedelta())
    return error


def from_rpc_error(error: grpc.RpcError) -> ApiError:
    """Convert the error of a call, by a synchronous or an asyncio channel."""
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return ApiError(grpc.StatusCode.UNKNOWN, "UNKNOWN", str(error), {})
    try:
        status = rpc_status.from_call(cast(grpc.Call, error))  # asks both for the same three methods
    except ValueError:
        status = None
    if status is not None:
        return from_status(status)
    code = error.code() or grpc.StatusCode.UNKNOWN
    return ApiError(code, code.name, error.details() or code.name, {})


def _pack(
    status: status_pb2.Status,
    detail: error_details_pb2.ErrorInfo
    | error_details_pb2.BadRequest
    | error_details_pb2.RequestInfo
    | error_details_pb2.RetryInfo
    | gateway_pb2.Findings,
) -> None:
    status.details.add().Pack(detail)


def _findings(violations: Sequence[Violation], room: int) -> gateway_pb2.Findings:
    findings = gateway_pb2.Findings()
    _fill(findings, findings.findings, violations, room, _finding)
    return findings


def _finding(violation: Violation) -> gateway_pb2.Finding:
    return gateway_pb2.Finding(
        code=violation.reason,
        severity=gateway_pb2.SEVERITY_ERROR,
        message=_cut(violation.message, _TEXT_LIMIT),
        field=_cut(violation.field, _FIELD_LIMIT),
        line=violation.line or 0,
        column=violation.column or 0,
        end_line=violation.end_line or 0,
        end_column=violation.end_column or 0,
        suggestion=_cut(violation.suggestion or "", _FIELD_LIMIT),
        edit=_edit(violation.edit),
    )


def violation(finding: gateway_pb2.Finding) -> Violation:
    """Convert a finding of the wire to a violation."""
    return Violation(
        finding.field,
        finding.message,
        finding.code,
        finding.line or None,
        finding.column or None,
        finding.end_line or None,
        finding.end_column or None,
        finding.suggestion or None,
        _from_wire(finding.edit) if finding.HasField("edit") else None,
    )


def _edit(edit: Edit | None) -> gateway_pb2.Edit | None:
    """Convert an edit; None for one that metadata has no room for, as half of it would be another edit."""
    return gateway_pb2.Edit(**asdict(edit)) if edit and len(edit.text) <= _FIELD_LIMIT else None


def _from_wire(edit: gateway_pb2.Edit) -> Edit:
    return Edit(edit.line, edit.column, edit.end_line, edit.end_column, edit.text)


def _bad_request(violations: Sequence[Violation], room: int) -> error_details_pb2.BadRequest:
    bad = error_details_pb2.BadRequest()
    _fill(bad, bad.field_violations, violations, room, _field_violation)
    return bad


def _field_violation(violation: Violation) -> error_details_pb2.BadRequest.FieldViolation:
    return error_details_pb2.BadRequest.FieldViolation(
        field=_cut(violation.field, _FIELD_LIMIT),
        description=_cut(violation.description, _TEXT_LIMIT),
        reason=violation.reason,
    )


def _fill(
    detail: Message,
    entries: Any,
    violations: Sequence[Violation],
    room: int,
    entry: Callable[[Violation], Message],
) -> None:
    """Add as many entries to a detail as there is room for; the last one counts the rest."""
    for number, violation in enumerate(violations):
        entries.append(entry(violation))
        if detail.ByteSize() > room - 100 and number:
            more = Violation(_cut(violation.field, 50), f"and {len(violations) - number} more", "MORE")
            entries[number].CopyFrom(entry(more))
            break


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
