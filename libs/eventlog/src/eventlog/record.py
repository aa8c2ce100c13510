"""Records of a topic, drafts of them, and the CloudEvents headers that carry their attributes.

The `cloudevents` SDK's Kafka binding is not used here: it validates every attribute of every event and parses
times in Python, which costs a replay several times what decoding does. The format is the SDK's (a test keeps
the two in step): binary content mode, one `ce_*` header per attribute, the Protobuf message as the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final, NamedTuple

from daggers.v1 import alerts_pb2, audit_pb2, events_pb2, rules_pb2, telemetry_pb2
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from daggerspec import cloudevents

# Stands in for a missing or unreadable ce_time, so that a damaged record is still a record.
NO_TIME: Final = datetime.fromtimestamp(0, UTC)

# Every type a topic of ours may hold: full message name -> class. Looked up once for each record.
MESSAGES: Final[Mapping[str, type[Message]]] = {
    descriptor.full_name: GetMessageClass(descriptor)
    for module in (events_pb2, telemetry_pb2, alerts_pb2, audit_pb2, rules_pb2)
    for descriptor in module.DESCRIPTOR.message_types_by_name.values()
}


@dataclass(frozen=True, slots=True)
class Draft:
    """Record to append. Do not change its message once it is appended."""

    id: str
    """ce_id: readers of the log apply records of the same id once."""
    source: str
    """ce_source: the writer, for example /api-gateway/HOST-PID."""
    subject: str
    """ce_subject and key: the name of the dagger, cluster, … that the record is about."""
    time: datetime
    """ce_time, UTC."""
    message: Message
    """The event; ce_type is its full name."""

    def headers(self) -> list[tuple[str, bytes]]:
        """Build the CloudEvents headers, in binary mode."""
        return cloudevents.headers(
            ce_id=self.id,
            ce_type=self.message.DESCRIPTOR.full_name,
            source=self.source,
            subject=self.subject,
            time=cloudevents.timestamp(self.time),
        )


class Record(NamedTuple):  # a frozen dataclass takes three times as long to make, and a start makes millions
    """Record that was read from a topic."""

    sequence: int
    """Offset in the topic."""
    id: str
    """ce_id; empty when the header is missing."""
    source: str
    """ce_source."""
    subject: str
    """ce_subject."""
    time: datetime
    """ce_time, UTC; the epoch when it is missing or unreadable."""
    type: str
    """ce_type: full message name."""
    message: Message | None
    """None when the value is unreadable or its type unknown: not fatal, as newer versions have more types."""
    value: bytes
    """Serialised message, unchanged."""


class LogPosition(NamedTuple):  # as Record
    """Position in a log, with a digest that identifies the log. Stored beside state that was made from it."""

    sequence: int = -1
    """Of the newest record read; -1 before the first."""
    history: bytes = b""
    """Digest of every record up to `sequence`, by `extend_history`; empty before the first."""


def extend_history(history: bytes, record: Record) -> bytes:
    """Digest a log up to `record`, from the digest of all records before it. Equal for equal logs only."""
    about = f"{record.id}\n{record.type}\n{record.subject}\n".encode()
    return blake2b(history + about + record.value, digest_size=16).digest()


def read_record(sequence: int, headers: Iterable[tuple[str, bytes]], value: bytes | None) -> Record:
    """Decode one Kafka message. Never raises: an unreadable value has `message` None, headers are empty."""
    values = dict(headers)
    type_name = _text(values.get("ce_type"))
    value = value or b""
    message: Message | None = None
    kind = MESSAGES.get(type_name)
    if kind is not None:
        try:
            message = kind.FromString(value)
        except DecodeError:
            message = None
    return Record(
        sequence=sequence,
        id=_text(values.get("ce_id")),
        source=_text(values.get("ce_source")),
        subject=_text(values.get("ce_subject")),
        time=_time(values.get("ce_time")),
        type=type_name,
        message=message,
        value=value,
    )


def _text(value: bytes | None) -> str:
    return value.decode(errors="replace") if value else ""


def _time(value: bytes | None) -> datetime:
    try:
        time = datetime.fromisoformat(_text(value))
        if time.tzinfo is UTC:  # as we write it
            return time
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return NO_TIME
