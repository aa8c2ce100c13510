"""What a replay writes in place of a record: from a call to what stands in `daggers.quarantine`. Pure."""

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
"""Of one edit: as much as of a record is kept."""
_SINK: Final = "sink"


def violations(request: gateway_pb2.ReplayQuarantinedRequest) -> Iterator[Violation]:
    """What is wrong with edits, as far as it shows without the records."""
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


def edited(
    path: str, edit: gateway_pb2.QuarantineEdit, record: telemetry_pb2.Quarantined, fleet: Fleet
) -> telemetry_pb2.QuarantineEdited | Sequence[Violation]:
    """What is written in place of a record, or what is wrong with it, in words without what it holds."""
    made = telemetry_pb2.QuarantineEdited(dagger=record.dagger, id=edit.id)
    if record.stage == _SINK:
        wrong = list(_columns(path, edit, record))
        made.columns = edit.decoded
    elif edit.decoded:
        wrong = []
        try:
            made.value = _encoded(edit.decoded, record.message, fleet)
        except (ParseError, ValueError, RecursionError, LookupError):
            text = f"is no {record.message or '?'} as JSON, as that is registered now"
            wrong = [Violation(f"{path}.decoded", text, "MALFORMED", metadata={"message": record.message})]
    else:
        wrong, made.value = [], edit.value
    return wrong or made


def _columns(
    path: str, edit: gateway_pb2.QuarantineEdit, record: telemetry_pb2.Quarantined
) -> Iterator[Violation]:
    if edit.value:
        yield Violation(
            f"{path}.value", "is for records; of a row say the columns in decoded", "NOT_A_RECORD"
        )
        return
    said, known = _object(edit.decoded), _object(record.decoded_prefix)
    if said is None:
        yield Violation(f"{path}.decoded", "must be a JSON object of columns", "MALFORMED")
    elif not said:
        yield Violation(f"{path}.decoded", "must have a column that is another", "REQUIRED")
    elif known is not None:  # else it was too long to be kept: the replay has the row
        for name in sorted(said.keys() - known.keys()):
            text = f"has no column {name[:100]}; there are {', '.join(sorted(known))}"
            yield Violation(f"{path}.decoded", text, "UNKNOWN_COLUMN")


def _object(text: str) -> dict[str, object] | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _encoded(text: str, message: str, fleet: Fleet) -> bytes:
    schema = fleet.messages[message]
    said = GetMessageClass(descriptor(schema.value, message))()
    ParseDict(json.loads(text), said)
    return said.SerializeToString(deterministic=True)
