"""A record of the audit: who called what, and whether it was let through."""

import json
from typing import Any

from daggers.v1 import audit_pb2, gateway_pb2

from daggerclient.times import iso

_KIND = "AUDIT_KIND_"


def record(what: gateway_pb2.AuditRecord) -> dict[str, Any]:
    """A record; `principal` is null for calls without a valid token, `asked` where that is not kept."""
    call = what.call
    return {
        "time": iso(what.time),
        "sequence": what.sequence,
        "kind": kind(call),
        "principal": call.principal or None,
        "peer": call.peer or None,
        "method": call.method,
        "subject": call.subject or None,
        "teams": list(call.teams),
        "allowed": call.allowed,
        "refused": call.refused,
        "reason": call.reason,
        "detail": call.detail,
        "asked": _asked(call.asked),
        "sensitive": list(call.sensitive),
        "calls": max(call.calls, 1),
        "call_id": call.call_id,
    }


def kind(call: audit_pb2.CallAudited) -> str:
    """What a record is about, in a word: as `--kind` takes it."""
    try:
        return audit_pb2.AuditKind.Name(call.kind).removeprefix(_KIND).lower().replace("_", "-")
    except ValueError:  # of a newer gateway
        return str(call.kind)


def kind_of(word: str) -> audit_pb2.AuditKind.ValueType:
    """The kind that a word stands for. Raises: ValueError."""
    return audit_pb2.AuditKind.Value(_KIND + word.upper().replace("-", "_"))


def _asked(text: str) -> Any:
    """What was asked for: an object; the text of one that was cut."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
