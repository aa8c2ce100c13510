"""Check and encode a replay's edits, which `daggers.quarantine` stores in place of records. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from daggers.v1 import gateway_pb2, telemetry_pb2
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message_factory import GetMessageClass

from api_gateway.validate.schemas import descriptor
from daggerspec.violation import Violation
from fleet import Fleet

MAX_EDITS: Final = 100
MAX_BYTES: Final = 512 * 1024
"""Size limit of one edit, in bytes: the part of a record that the quarantine keeps is no larger."""
_SINK: Final = "sink"


def violations(request: gateway_pb2.ReplayQuarantinedRequest) -> Iterator[Violation]:
    """Yield what is wrong with edits, as far as it shows without the records."""
    if len(request.edits) > MAX_EDITS:
        limits = {"size": str(len(request.edits)), "limit": str(MAX_EDITS)}
        text = f"has {len(request.edits)} edits; at most {MAX_EDITS} are taken"
        yield Violation("edits", text, "TOO_LARGE", metadata=limits)
        return
    seen: set[str] = set()
    for number, edit in enumerate(request.edits):
        path = f"edits[{number}]"
        if edit.id not in request.selection.ids:
            yield Violation(f"{path}.id", "must be one of selection.ids", "NOT_SELECTED")
        elif edit.id in seen:
            yield Violation(f"{path}.id", "has an edit already", "NOT_UNIQUE")
        seen.add(edit.id)
        if bool(edit.decoded) == bool(edit.value):
            yield Violation(path, "must have one of decoded and value", "REQUIRED")
        for name, size in (("decoded", len(edit.decoded.encode())), ("value", len(edit.value))):
            if size > MAX_BYTES:
                limits = {"size": str(size), "limit": str(MAX_BYTES)}
                text = f"has {size} bytes; at most {MAX_BYTES} are taken"
                yield Violation(f"{path}.{name}", text, "TOO_LARGE", metadata=limits)


def build_edit(
    path: str, edit: gateway_pb2.QuarantineEdit, record: telemetry_pb2.Quarantined, fleet: Fleet
) -> telemetry_pb2.QuarantineEdited | Sequence[Violation]:
    """Build the edited record, or return what is wrong with the edit, without quoting the
    record's content.
    """
    edited = telemetry_pb2.QuarantineEdited(dagger=record.dagger, id=edit.id)
    if record.stage == _SINK:
        wrong = list(_columns(path, edit, record))
        edited.columns = edit.decoded
    elif edit.decoded:
        wrong = []
        try:
            edited.value = _encode(edit.decoded, record.message, fleet)
        except (ParseError, ValueError, RecursionError, LookupError):
            text = f"is no {record.message or '?'} as JSON, as that is registered now"
            wrong = [Violation(f"{path}.decoded", text, "MALFORMED", metadata={"message": record.message})]
    else:
        wrong, edited.value = [], edit.value
    return wrong or edited


def _columns(
    path: str, edit: gateway_pb2.QuarantineEdit, record: telemetry_pb2.Quarantined
) -> Iterator[Violation]:
    if edit.value:
        yield Violation(
            f"{path}.value", "is for records; of a row say the columns in decoded", "NOT_A_RECORD"
        )
        return
    columns, columns_before = _object(edit.decoded), _object(record.decoded_prefix)
    if columns is None:
        yield Violation(f"{path}.decoded", "must be a JSON object of columns", "MALFORMED")
    elif not columns:
        yield Violation(f"{path}.decoded", "must have a column that is another", "REQUIRED")
    # None: the row was too long to be stored here, and the replay reads it from its topic
    elif columns_before is not None:
        for name in sorted(columns.keys() - columns_before.keys()):
            text = f"has no column {name[:100]}; there are {', '.join(sorted(columns_before))}"
            yield Violation(f"{path}.decoded", text, "UNKNOWN_COLUMN")


def _object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _encode(text: str, message: str, fleet: Fleet) -> bytes:
    schema = fleet.messages[message]
    content = GetMessageClass(descriptor(schema.value, message))()
    ParseDict(json.loads(text), content)
    return content.SerializeToString(deterministic=True)
