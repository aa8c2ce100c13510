"""A log as a file: every message of a topic with its sequence, key, headers, timestamp and value. Pure.

Lines of JSON. The first names the topic and the first sequence; then one line for each message, in order;
the last counts them, so that a file that was cut short is not mistaken for a shorter log. Every line has the
digest of all lines up to it, so that a change is found at its line.

    {"daggers_log": 1, "topic": "daggers.control", "first": 0}
    {"sequence": 0, "timestamp": 1767225600000, "key": "…", "headers": [["ce_id", "…"], …], "value": "…", "digest": "…"}
    {"records": 1, "digest": "…"}

Bytes are base64; null is null.
"""  # noqa: E501 - a line of the format, whole

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from eventlog.record import read_record

LOST: Final = "daggers.log.Lost"
"""ce_type of a message that fills the place of a lost one."""
_FORMAT: Final = 1
_BROKEN: Final = (ValueError, KeyError, TypeError)


class ExportDamaged(Exception):  # noqa: N818 - reads as what happened
    """The file is not what was exported. The message is a clause that names the line."""


@dataclass(frozen=True, slots=True)
class ExportEntry:
    """One message of the topic, unchanged."""

    sequence: int
    """Offset in the topic."""
    timestamp_ms: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Head:
    """First line of a file: which topic was exported."""

    topic: str
    first: int
    """Sequence of the topic's first message."""


class ExportWriter:
    """Builds the lines of one file, each with its newline: `begin`, `add` per message in order, `end`."""

    def __init__(self, head: Head) -> None:
        self.records = 0
        """Messages that were added."""
        self._head = head
        self._digest = _seed(head)

    def begin(self) -> str:
        """Build the first line."""
        return _line({"daggers_log": _FORMAT, "topic": self._head.topic, "first": self._head.first})

    def add(self, entry: ExportEntry) -> str:
        """Build the line of a message, and extend the digest by it."""
        body = _body(entry)
        self._digest = _extend_digest(self._digest, body)
        self.records += 1
        return _line({**body, "digest": self._digest.hex()})

    def end(self) -> str:
        """Build the last line, with count and digest."""
        return _line({"records": self.records, "digest": self._digest.hex()})


@dataclass(frozen=True, slots=True)
class UnreadableMessage:
    """Message that this version cannot decode as an event."""

    sequence: int
    type: str
    subject: str


@dataclass(slots=True)
class LogReport:
    """Counts, gaps and unreadable messages of a log."""

    records: int = 0
    last: int = -1
    """Sequence of the last message; -1 for an empty log."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Runs of sequences without a message, from 0 on: first and last of each run."""
    unreadable: list[UnreadableMessage] = field(default_factory=list)

    def add(self, entry: ExportEntry) -> None:
        """Count the next message."""
        if entry.sequence != self.last + 1:
            self.gaps.append((self.last + 1, entry.sequence - 1))
        self.records, self.last = self.records + 1, entry.sequence
        record = read_record(entry.sequence, present(entry.headers), entry.value)
        if record.message is None:
            self.unreadable.append(UnreadableMessage(record.sequence, record.type, record.subject))

    @property
    def missing(self) -> int:
        """Number of sequences without a message."""
        return sum(last - first + 1 for first, last in self.gaps)


def close_gaps(entries: Iterable[ExportEntry]) -> Iterator[ExportEntry]:
    """Yield the messages, and a blank one at every sequence without a message, from 0 on.

    Readers of a log skip blank messages, as they skip all that they cannot decode.
    """
    expected = 0
    for entry in entries:
        for sequence in range(expected, entry.sequence):
            yield blank_entry(entry, sequence)
        yield entry
        expected = entry.sequence + 1


def blank_entry(entry: ExportEntry, sequence: int | None = None) -> ExportEntry:
    """Build a message without content at the entry's sequence, or at another one, with its timestamp."""
    place = entry.sequence if sequence is None else sequence
    return ExportEntry(place, entry.timestamp_ms, None, (("ce_type", LOST.encode()),), b"")


def present(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes]]:
    """Drop the headers without a value, which Kafka allows."""
    return [(name, value) for name, value in headers if value is not None]


def read(source: Iterable[str]) -> tuple[Head, Iterator[ExportEntry]]:
    """Read the head of a file, and its messages lazily. Raises: ExportDamaged, also while iterating."""
    numbered = enumerate(source, start=1)
    try:
        _, text = next(numbered)
        first = _object(text)
        if first["daggers_log"] != _FORMAT:
            raise ExportDamaged(
                f"its format is {first['daggers_log']}, this version reads {_FORMAT}: use a newer `daggers`"
            )
        head = Head(_check_type(first["topic"], str), _check_type(first["first"], int))
    except StopIteration:
        raise ExportDamaged("it is empty") from None
    except _BROKEN:
        raise ExportDamaged("its first line is not that of an exported log") from None
    return head, _entries(head, numbered)


def _entries(head: Head, numbered: Iterator[tuple[int, str]]) -> Iterator[ExportEntry]:
    digest, records, before = _seed(head), 0, head.first - 1
    for number, text in numbered:
        try:
            body = _object(text)
            if "records" in body:
                if (body["records"], body["digest"]) != (records, digest.hex()):
                    raise ExportDamaged(f"line {number} does not end the {records} records before it")
                if (after := next(numbered, None)) is not None:
                    raise ExportDamaged(f"line {after[0]} stands behind its end")
                return
            line_digest = _check_type(body.pop("digest"), str)
            digest = _extend_digest(digest, body)
            entry = _entry(body)
        except _BROKEN:
            raise ExportDamaged(f"line {number} is not a record of an exported log") from None
        if digest.hex() != line_digest:
            raise ExportDamaged(f"line {number} (sequence {entry.sequence}) is not as it was exported")
        if entry.sequence <= before:
            raise ExportDamaged(f"line {number} has sequence {entry.sequence} behind {before}")
        records, before = records + 1, entry.sequence
        yield entry
    raise ExportDamaged(f"it ends behind {records} records without its last line: it was cut short")


def _seed(head: Head) -> bytes:
    return blake2b(f"{head.topic}/{head.first}".encode(), digest_size=16).digest()


def _extend_digest(digest: bytes, body: Mapping[str, Any]) -> bytes:
    return blake2b(digest + json.dumps(body, sort_keys=True).encode(), digest_size=16).digest()


def _body(entry: ExportEntry) -> dict[str, Any]:
    return {
        "sequence": entry.sequence,
        "timestamp": entry.timestamp_ms,
        "key": _text(entry.key),
        "headers": [[name, _text(value)] for name, value in entry.headers],
        "value": _text(entry.value),
    }


def _entry(body: Mapping[str, Any]) -> ExportEntry:
    return ExportEntry(
        sequence=_check_type(body["sequence"], int),
        timestamp_ms=_check_type(body["timestamp"], int),
        key=_bytes(body["key"]),
        headers=tuple((_check_type(name, str), _bytes(value)) for name, value in body["headers"]),
        value=_bytes(body["value"]),
    )


def _object(text: str) -> dict[str, Any]:
    document = json.loads(text)
    return dict(_check_type(document, dict))


def _check_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(kind.__name__)
    return value


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value) + "\n"
