"""Contents of audit records: kind of call, refusal, request, sensitive fields. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from daggers.v1 import audit_pb2, spec_pb2
from google.protobuf import json_format, text_format

from access.principal import Principal
from access.sensitive import sees
from fleet import Fleet

Kind = audit_pb2.AuditKind
REFUSED: Final = audit_pb2.AUDIT_KIND_REFUSED
UNAUTHENTICATED: Final = audit_pb2.AUDIT_KIND_UNAUTHENTICATED
READ: Final = audit_pb2.AUDIT_KIND_READ
PREVIEW: Final = audit_pb2.AUDIT_KIND_PREVIEW
SINK_TEST: Final = audit_pb2.AUDIT_KIND_SINK_TEST
CHECK: Final = audit_pb2.AUDIT_KIND_CHECK
SENSITIVE: Final = frozenset({READ, PREVIEW})
"""Kinds of calls that show what tenants' records say: none is answered that cannot be audited."""

_FORBIDDEN: Final = ("FOREIGN_", "FORBIDDEN_", "SECRET_", "SENSITIVE_")
_OTHERS: Final = frozenset(
    {
        "ACCOUNT_REVOKED",
        "ADDRESS_REFUSED",
        "DESTINATION_BOUNDLESS",
        "FOLDER_REFUSED",
        "RESERVED",
        "ROLE_MISSING",
        "STREAM_RESTRICTED",
        "TEAM_UNKNOWN",
        "UNREGISTERED_SECRET",
    }
)
_REQUEST_LIMIT: Final = 16_000
"""Characters of a request that a record has at most."""


def is_refusal(reason: str) -> bool:
    """Tell whether a reason is that the caller may not, and not that something is wrong or missing."""
    return reason in _OTHERS or reason.startswith(_FORBIDDEN)


def refusal_in(reasons: Iterable[str]) -> str:
    """Return the first of some reasons that is a refusal; empty when none is."""
    return next(filter(is_refusal, reasons), "")


def kind_of(call: audit_pb2.CallAudited) -> Kind.ValueType:
    """Return the kind of a record; derive it for a record of before they had one."""
    return call.kind or (READ if call.allowed else REFUSED)


def describe_request(request: Any) -> str:
    """Write a request as JSON; of a specification the team, streams, query and kinds of sinks alone.

    Any other part of a sink may be a secret that somebody wrote where none belongs.
    """
    has_spec = "spec" in request.DESCRIPTOR.fields_by_name and request.HasField("spec")
    rest = type(request)()
    rest.CopyFrom(request)  # descriptors may lack fields that proto2 requires: they are not serialised
    if has_spec:
        rest.ClearField("spec")
    if "schema" in rest.DESCRIPTOR.fields_by_name and rest.HasField("schema"):
        rest.schema.ClearField("files")  # descriptors, which nobody reads as JSON; its messages stay
    try:
        fields = json_format.MessageToDict(rest, preserving_proto_field_name=True)
    except (json_format.Error, ValueError, OverflowError):  # a time that JSON has no text for
        fields = {"request": text_format.MessageToString(rest, as_one_line=True)}
    if has_spec:
        fields["spec"] = _describe_spec(request.spec)
    text = json.dumps(fields, ensure_ascii=False)
    return text if len(text) <= _REQUEST_LIMIT else f"{text[: _REQUEST_LIMIT - 1]}…"


def _describe_spec(spec: spec_pb2.DaggerSpec) -> dict[str, Any]:
    return {
        "team": spec.team,
        "streams": [stream.stream for stream in spec.streams],
        "sql": spec.sql,
        "sinks": [sink.WhichOneof("kind") or sink.registered for sink in spec.sinks],
    }


def sensitive_fields(principal: Principal, streams: Iterable[str], fleet: Fleet) -> list[str]:
    """List the sensitive fields of streams that a principal sees, each STREAM.PATH."""
    return [
        f"{stream}.{path}"
        for stream in dict.fromkeys(streams)
        if stream in fleet.streams and sees(principal, stream, fleet)
        for path in fleet.streams[stream].value.sensitive
    ]
