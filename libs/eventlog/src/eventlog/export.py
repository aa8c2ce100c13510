"""A log as a file: every message of a topic with its sequence, key, headers, timestamp and value. Pure.

Lines of JSON. The first names the topic and the first sequence; then one line for each message, in order; the
last says how many there are, so that a file that was cut short is not taken for a shorter log. Every line holds
the digest of everything before it and itself: what was changed is found at the line where it was changed.

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
"""ce_type of a message that stands where one was lost."""
_FORMAT: Final = 1
_BROKEN: Final = (ValueError, KeyError, TypeError)


class ExportDamaged(Exception):  # noqa: N818 - reads as what happened
    """The file is not what was exported. One sentence with the line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of the topic, as it stands there."""

    sequence: int
    """Its offset."""
    timestamp_ms: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Head:
    """What a file is of."""

    topic: str
    first: int
    """Sequence of the first message; where the topic begins."""


class Writer:
    """Makes the lines of one file, each with its newline: `begin`, `add` for each message in order, `end`."""

    def __init__(self, head: Head) -> None:
        self.records = 0
        """Messages so far."""
        self._head = head
        self._digest = _seed(head)

    def begin(self) -> str:
        """The first line."""
        return _line({"daggers_log": _FORMAT, "topic": self._head.topic, "first": self._head.first})

    def add(self, entry: Entry) -> str:
        """The line of a message."""
        body = _body(entry)
        self._digest = _chained(self._digest, body)
        self.records += 1
        return _line({**body, "digest": self._digest.hex()})

    def end(self) -> str:
        """The last line."""
        return _line({"records": self.records, "digest": self._digest.hex()})


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that is no event this version knows."""

    sequence: int
    type: str
    subject: str


@dataclass(slots=True)
class Report:
    """What is in a log."""

    records: int = 0
    last: int = -1
    """Sequence of the last message; -1 when there is none."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Sequences that hold nothing: the first and the last of each run, from 0 on."""
    unreadable: list[Unreadable] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Take in the next message."""
        if entry.sequence != self.last + 1:
            self.gaps.append((self.last + 1, entry.sequence - 1))
        self.records, self.last = self.records + 1, entry.sequence
        record = read_record(entry.sequence, present(entry.headers), entry.value)
        if record.message is None:
            self.unreadable.append(Unreadable(record.sequence, record.type, record.subject))

    @property
    def missing(self) -> int:
        """How many sequences hold nothing."""
        return sum(last - first + 1 for first, last in self.gaps)


def filled(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The messages with one of no content at every sequence that holds nothing, from 0 on.

    What reads a log sets such a message aside, as it does every one that it cannot read.
    """
    expected = 0
    for entry in entries:
        for sequence in range(expected, entry.sequence):
            yield emptied(entry, sequence)
        yield entry
        expected = entry.sequence + 1


def emptied(entry: Entry, sequence: int | None = None) -> Entry:
    """A message without content in the place of one, or at another sequence beside it."""
    place = entry.sequence if sequence is None else sequence
    return Entry(place, entry.timestamp_ms, None, (("ce_type", LOST.encode()),), b"")


def present(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes]]:
    """The headers that have a value."""
    return [(name, value) for name, value in headers if value is not None]


def read(source: Iterable[str]) -> tuple[Head, Iterator[Entry]]:
    """What the file is of, and its messages. Raises: ExportDamaged, also while the messages are read."""
    numbered = enumerate(source, start=1)
    try:
        _, text = next(numbered)
        first = _object(text)
        if first["daggers_log"] != _FORMAT:
            raise ExportDamaged(
                f"its format is {first['daggers_log']}, this version reads {_FORMAT}: use a newer `daggers`"
            )
        head = Head(_typed(first["topic"], str), _typed(first["first"], int))
    except StopIteration:
        raise ExportDamaged("it is empty") from None
    except _BROKEN:
        raise ExportDamaged("its first line is not that of an exported log") from None
    return head, _entries(head, numbered)


def _entries(head: Head, numbered: Iterator[tuple[int, str]]) -> Iterator[Entry]:
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
            said = _typed(body.pop("digest"), str)
            digest = _chained(digest, body)
            entry = _entry(body)
        except _BROKEN:
            raise ExportDamaged(f"line {number} is not a record of an exported log") from None
        if digest.hex() != said:
            raise ExportDamaged(f"line {number} (sequence {entry.sequence}) is not as it was exported")
        if entry.sequence <= before:
            raise ExportDamaged(f"line {number} has sequence {entry.sequence} behind {before}")
        records, before = records + 1, entry.sequence
        yield entry
    raise ExportDamaged(f"it ends behind {records} records without its last line: it was cut short")


def _seed(head: Head) -> bytes:
    return blake2b(f"{head.topic}/{head.first}".encode(), digest_size=16).digest()


def _chained(digest: bytes, body: Mapping[str, Any]) -> bytes:
    return blake2b(digest + json.dumps(body, sort_keys=True).encode(), digest_size=16).digest()


def _body(entry: Entry) -> dict[str, Any]:
    return {
        "sequence": entry.sequence,
        "timestamp": entry.timestamp_ms,
        "key": _text(entry.key),
        "headers": [[name, _text(value)] for name, value in entry.headers],
        "value": _text(entry.value),
    }


def _entry(body: Mapping[str, Any]) -> Entry:
    return Entry(
        sequence=_typed(body["sequence"], int),
        timestamp_ms=_typed(body["timestamp"], int),
        key=_bytes(body["key"]),
        headers=tuple((_typed(name, str), _bytes(value)) for name, value in body["headers"]),
        value=_bytes(body["value"]),
    )


def _object(text: str) -> dict[str, Any]:
    document = json.loads(text)
    return dict(_typed(document, dict))


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(kind.__name__)
    return value


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value) + "\n"
