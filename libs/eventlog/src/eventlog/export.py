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
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

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
    headers: tuple[tuple[str, bytes], ...]
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Head:
    """What a file is of."""

    topic: str
    first: int
    """Sequence of the first message; where the topic begins."""


def lines(head: Head, entries: Iterable[Entry]) -> Iterator[str]:
    """The lines of the file, each with its newline."""
    yield _line({"daggers_log": _FORMAT, "topic": head.topic, "first": head.first})
    digest, records = _seed(head), 0
    for entry in entries:
        body = _body(entry)
        digest = _chained(digest, body)
        records += 1
        yield _line({**body, "digest": digest.hex()})
    yield _line({"records": records, "digest": digest.hex()})


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
            found = _object(text)
            if "records" in found:
                if (found["records"], found["digest"]) != (records, digest.hex()):
                    raise ExportDamaged(f"line {number} ends a file of {found['records']} records: it has {records}")
                if (after := next(numbered, None)) is not None:
                    raise ExportDamaged(f"line {after[0]} stands behind its end")
                return
            said = _typed(found.pop("digest"), str)
            digest = _chained(digest, found)
            entry = _entry(found)
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
        headers=tuple((_typed(name, str), _bytes(value) or b"") for name, value in body["headers"]),
        value=_bytes(body["value"]),
    )


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    return dict(_typed(found, dict))


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
