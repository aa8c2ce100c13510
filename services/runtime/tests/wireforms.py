"""Encoded messages in every form that Protobuf's reference reads, and some that it does not."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from daggerspec.protobuf import DURATION, TIMESTAMP, is_map

_F = FieldDescriptor
_FIXED: Final = {
    _F.TYPE_DOUBLE: "<d", _F.TYPE_FLOAT: "<f", _F.TYPE_FIXED32: "<I", _F.TYPE_SFIXED32: "<i",
    _F.TYPE_FIXED64: "<Q", _F.TYPE_SFIXED64: "<q",
}  # fmt: skip
_INTEGERS: Final = (
    0,
    0,
    1,
    2,
    3,
    7,
    127,
    128,
    300,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
_TEXTS: Final = (b"", b"", b"a", b"b", "grüße".encode(), b"0123456789")
_DEPTH: Final = 2
"""Of messages in messages: no deeper than columns of one that contains itself."""


def varint(number: int, rng: Random | None = None) -> bytes:
    """A varint; with a generator now and then a longer one than it need be."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    if rng is not None and rng.random() < 0.02 and len(out) < 9:
        out[-1] |= 0x80
        out += b"\x80" * rng.randrange(2) + b"\x00"
    return bytes(out)


class WireForms:
    """Records of a message.

    `odd` is how likely each liberty is that an encoder seldom takes: fields twice, of another wire type,
    unknown ones, keys twice, parts left out, times that are none. 0 writes what encoders write.
    """

    def __init__(self, rng: Random, odd: float) -> None:
        self._rng, self._odd = rng, odd

    def record(self, message: Descriptor) -> bytes:
        """One record; at times with damage: cut short, or with another byte, which may make fields that no
        column goes down to.
        """
        value = self.message(message, 0)
        if self._rng.random() < self._odd / 4:
            return self._damaged(value, cut=_contains_itself(message))
        return value

    def _often(self, least: float = 0) -> bool:
        return self._rng.random() < max(self._odd, least)

    def message(self, message: Descriptor, depth: int) -> bytes:
        """The fields of a message, in any order."""
        if message.full_name == TIMESTAMP:
            return self._time(-62_135_596_800, 253_402_300_799, 0)
        if message.full_name == DURATION:
            return self._time(-315_576_000_000, 315_576_000_000, -999_999_999)
        rng, pieces = self._rng, []
        oneofs: set[str] = set()
        for field in message.fields:
            oneof = field.containing_oneof
            if rng.random() < 0.3 or (field.message_type is not None and depth >= _DEPTH):
                continue
            if oneof is not None and oneof.name in oneofs and not self._often():
                continue
            if oneof is not None:
                oneofs.add(oneof.name)
            pieces += self._field(field, depth)
            if self._often():
                pieces += self._field(field, depth)
        if self._often():
            pieces.append(self._unknown())
        if self._often(0.1):
            rng.shuffle(pieces)
        return b"".join(pieces)

    def _time(self, first: int, last: int, least_nanos: int) -> bytes:
        rng = self._rng
        seconds = rng.choice([rng.randrange(first, last + 1), rng.randrange(-2, 2_000_000_000)])
        nanos = rng.choice([0, rng.randrange(1_000_000_000)])
        if seconds < 0 and least_nanos:
            nanos = -nanos
        if self._often():
            seconds = rng.choice([first - 1, last + 1, 1_700_000_000_123_456, -(2**63), 2**63 - 1, seconds])
            nanos = rng.choice([nanos, -nanos, 1_000_000_000, -5, 2**31 - 1])
        pieces = []
        if seconds or self._often():
            pieces.append(b"\x08" + varint(seconds % 2**64, rng))
        if nanos or self._often():
            pieces.append(b"\x10" + varint(nanos % 2**64, rng))
        if self._often():
            pieces.append(self._unknown())
            rng.shuffle(pieces)
        return b"".join(pieces)

    def _field(self, field: FieldDescriptor, depth: int) -> list[bytes]:
        rng = self._rng
        if self._often(0.0) and rng.random() < 0.2:
            return [self._tagged(field.number, rng.choice([0, 1, 2, 5]))]
        if not field.is_repeated:
            return [self._tag(field) + self._value(field, depth)]
        count = rng.choice([0, 1, 2, 3, 12] if depth < 2 else [0, 1, 2])
        if is_map(field):
            return [self._tag(field) + self._entry(field, depth) for _ in range(count)]
        packable = field.message_type is None and field.type not in (_F.TYPE_STRING, _F.TYPE_BYTES)
        if packable and (field.is_packed != self._often()):
            body = b"".join(self._value(field, depth) for _ in range(count))
            if self._often() and rng.random() < 0.2:
                body = body[:-1]
            return [varint(field.number << 3 | 2) + varint(len(body)) + body] if count else []
        return [self._tag(field) + self._value(field, depth) for _ in range(count)]

    def _tag(self, field: FieldDescriptor) -> bytes:
        if field.type in _FIXED:
            wire = 5 if struct.calcsize(_FIXED[field.type]) == 4 else 1
        elif field.type == _F.TYPE_GROUP:
            wire = 3
        elif field.message_type is not None or field.type in (_F.TYPE_STRING, _F.TYPE_BYTES):
            wire = 2
        else:
            wire = 0
        return varint(field.number << 3 | wire, self._rng)

    def _value(self, field: FieldDescriptor, depth: int) -> bytes:
        rng = self._rng
        if field.message_type is not None:
            body = self.message(field.message_type, depth + 1)
            if field.type == _F.TYPE_GROUP:
                return body + varint(field.number << 3 | 4)
            return varint(len(body), rng) + body
        if field.type in (_F.TYPE_STRING, _F.TYPE_BYTES):
            text = rng.choice(_TEXTS)
            if self._often() and rng.random() < 0.1:
                text = b"\xff\xfe"
            return varint(len(text), rng) + text
        if field.type in _FIXED:
            size = struct.calcsize(_FIXED[field.type])
            return rng.choice([bytes(size), rng.randbytes(size), b"\x01" + bytes(size - 1)])
        if field.enum_type is not None and rng.random() < 0.7:
            return varint(rng.choice(field.enum_type.values).number % 2**64, rng)
        return varint(rng.choice(_INTEGERS), rng)

    def _entry(self, field: FieldDescriptor, depth: int) -> bytes:
        assert field.message_type is not None
        pieces = []
        for part in field.message_type.fields:
            if self._often(0.05):
                continue
            if part.message_type is not None and depth >= _DEPTH:
                continue
            pieces.append(self._tag(part) + self._value(part, depth))
            if self._often() and self._rng.random() < 0.3:
                pieces.append(self._tag(part) + self._value(part, depth))
        if self._often():
            self._rng.shuffle(pieces)
        if self._often() and self._rng.random() < 0.2:
            pieces.append(self._unknown())
        body = b"".join(pieces)
        return varint(len(body), self._rng) + body

    def _unknown(self) -> bytes:
        rng = self._rng
        number = rng.choice([15, 41, 99, 150, 2_000, 536_870_911])
        wire = rng.choice([0, 1, 2, 3, 5])
        if wire == 3:
            inner = self._tagged(rng.randrange(1, 50), rng.choice([0, 1, 2, 5]))
            return varint(number << 3 | 3) + inner + varint(number << 3 | 4)
        return self._tagged(number, wire)

    def _tagged(self, number: int, wire: int) -> bytes:
        """A field of a wire type, whatever it is declared as."""
        rng = self._rng
        body = {
            0: varint(rng.choice(_INTEGERS)),
            1: rng.randbytes(8),
            2: b"\x02\x08\x01",
            5: rng.randbytes(4),
        }
        return varint(number << 3 | wire) + body[wire]

    def _damaged(self, value: bytes, *, cut: bool) -> bytes:
        rng = self._rng
        if cut or not value or rng.random() < 0.5:
            return value[: rng.randrange(len(value) + 1)]
        at = rng.randrange(len(value))
        return value[:at] + bytes([rng.randrange(256)]) + value[at + 1 :]


def _contains_itself(message: Descriptor, above: frozenset[str] = frozenset()) -> bool:
    if message.full_name in above:
        return True
    down = above | {message.full_name}
    below = (field.message_type for field in message.fields if field.message_type is not None)
    return any(_contains_itself(inner, down) for inner in below if not inner.full_name.startswith("google."))
