"""Identity and time of records of `daggers.quarantine`. Pure.

What gateways list and what a replay takes is selected by these: both have them from here.
"""

from __future__ import annotations

import hashlib
from typing import Final

from daggers.v1 import telemetry_pb2

AWAY: Final = "SINK_UNAVAILABLE"
"""The reason of rows that were quarantined because their sink did not answer."""
ID_CHARS: Final = 32
"""Of a whole id: 128 bits, in hexadecimal."""


def id_of(record: telemetry_pb2.Quarantined, ce_id: str) -> str:
    """Return the id of a record; one that an older driver quarantined has its event's."""
    return record.id or hashlib.blake2b(ce_id.encode(), digest_size=ID_CHARS // 2).hexdigest()


def set_ms(record: telemetry_pb2.Quarantined, kafka_ms: int) -> int:
    """Return when it was quarantined, in ms since 1970: by its driver's clock, else by Kafka's."""
    return record.time.ToMilliseconds() if record.HasField("time") else kafka_ms


def digest(edit: telemetry_pb2.QuarantineEdited) -> bytes:
    """Digest an edit, so that a replay's request can confirm which edit it means."""
    return hashlib.sha256(edit.row or edit.columns.encode() or edit.value).digest()
