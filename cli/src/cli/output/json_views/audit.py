"""A record of the audit: who called what, and whether it was let through."""

from typing import Any

from daggers.v1 import audit_pb2, gateway_pb2

from cli.output.json_views.answers import to_json


def record_document(record: gateway_pb2.AuditRecord) -> dict[str, Any]:
    """Convert a record; `principal` is null without a valid token, `asked` where that is not kept."""
    return to_json(record) | to_json(record.call)


def kind_of(word: str) -> audit_pb2.AuditKind.ValueType:
    """Find the kind that a word of `--kind` stands for. Raises: ValueError."""
    return audit_pb2.AuditKind.Value("AUDIT_KIND_" + word.upper().replace("-", "_"))
