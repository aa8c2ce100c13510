"""What was found about a specification, and the columns it gives."""

from typing import Any

from daggers.v1 import gateway_pb2


def finding(found: gateway_pb2.Finding) -> dict[str, Any]:
    """A finding of the gateway; its place is null outside of SQL."""
    return {
        "code": found.code,
        "severity": gateway_pb2.Severity.Name(found.severity).removeprefix("SEVERITY_").lower(),
        "field": found.field,
        "message": found.message,
        "line": found.line or None,
        "column": found.column or None,
        "end_line": found.end_line or None,
        "end_column": found.end_column or None,
        "suggestion": found.suggestion or None,
        "edit": _edit(found.edit) if found.HasField("edit") else None,
    }


def _edit(edit: gateway_pb2.Edit) -> dict[str, Any]:
    return {
        "line": edit.line,
        "column": edit.column,
        "end_line": edit.end_line,
        "end_column": edit.end_column,
        "text": edit.text,
    }


def column(what: gateway_pb2.OutputColumn) -> dict[str, str]:
    """An output column as the JSON document shows it."""
    role = gateway_pb2.OutputColumn.Role.Name(what.role).removeprefix("ROLE_").lower()
    return {"name": what.name, "role": role, "key": what.key, "type": what.type}
