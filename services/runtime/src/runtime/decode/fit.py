"""Measure how well records fit messages that they may be. Pure.

Nearly every message decodes as nearly every other: fields a message does not know are kept without an error.
So the measure is the share of a record's bytes that are fields of the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from google.protobuf import message
from google.protobuf.descriptor import Descriptor

from daggerspec.protobuf import TIMESTAMP, is_instant, is_map

_SHOWN: Final = 3
_LEAST: Final = 0.5
_FITS: Final = 0.999


@dataclass(frozen=True, slots=True)
class Fit:
    """Measure of how well some records fit one message."""

    kind: type[message.Message]
    score: float
    """The mean of the parts of their bytes that are its fields; 0 of one that does not decode."""
    coverage: float
    """The part of its fields that the records have: of two messages with one score the smaller fits."""
    decoded: int
    """Count of the records that decode."""
    count: int
    """Count of all records."""

    @property
    def name(self) -> str:
        """Full name of the message."""
        return cast(Descriptor, self.kind.DESCRIPTOR).full_name

    @property
    def problem(self) -> str:
        """Reason for a fit below 100 %; empty for a full one."""
        if self.decoded < self.count:
            return f"{self.count - self.decoded} of {self.count} records do not decode"
        return "" if self.score >= _FITS else f"{1 - self.score:.0%} of their bytes are no fields of it"


def best(values: Sequence[bytes], kinds: Iterable[type[message.Message]]) -> list[Fit]:
    """Rank the few messages that values may be, best fit first; a score below one half is left out."""
    fits = (fit(values, kind) for kind in kinds)
    likely = [candidate for candidate in fits if candidate.score >= _LEAST]
    return sorted(likely, key=lambda candidate: (-candidate.score, -candidate.coverage, candidate.name))[
        :_SHOWN
    ]


def fit(values: Sequence[bytes], kind: type[message.Message]) -> Fit:
    """Measure how values fit a message."""
    shares, fields, decoded = 0.0, set[int](), 0
    for value in values:
        read = _read(value, kind)
        if read is not None:
            decoded += 1
            fields |= {field.number for field, _ in read.ListFields()}
            read.DiscardUnknownFields()
            shares += min(read.ByteSize() / len(value), 1.0) if value else 0.0
    defined = len(cast(Descriptor, kind.DESCRIPTOR).fields)
    score = shares / len(values) if values else 0.0
    return Fit(kind, score, len(fields) / defined if defined else 0.0, decoded, len(values))


def unknown(value: bytes, kind: type[message.Message]) -> float:
    """Return the share of a value's bytes that are no fields of the message; 0 if it does not decode."""
    read = _read(value, kind)
    if read is None or not (size := read.ByteSize()):
        return 0.0
    read.DiscardUnknownFields()
    return 1 - read.ByteSize() / size


def _read(value: bytes, kind: type[message.Message]) -> message.Message | None:
    """Decode a message; None for bytes that are none, or whose times are beyond the range."""
    try:
        read = kind.FromString(value)
    except message.DecodeError:
        return None
    return read if _has_times(read) else None


def _has_times(read: Any) -> bool:
    for field, value in read.ListFields():
        if field.message_type is None or is_map(field):
            continue
        for item in value if field.is_repeated else (value,):
            if field.message_type.full_name == TIMESTAMP:
                if not is_instant(item):
                    return False
            elif not _has_times(item):
                return False
    return True
