"""The CloudEvents headers of a record, in binary mode: one `ce_*` header for each attribute."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

PROTOBUF: Final = "application/protobuf"
JSON: Final = "application/json"


def headers(
    *, ce_id: str, ce_type: str, source: str, subject: str, time: str | None, content_type: str = PROTOBUF
) -> list[tuple[str, bytes]]:
    """Build the headers; `ce_type` is a message's full name, `time` as `timestamp` writes it."""
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": ce_id,
        "ce_source": source,
        "ce_type": ce_type,
        "ce_subject": subject,
        "ce_time": time,
        "content-type": content_type,
    }
    return [(name, value.encode()) for name, value in attributes.items() if value is not None]


def timestamp(time: datetime) -> str:
    """Format an aware time as CloudEvents has it."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
