"""Times of Protobuf: which are times at all, and their microseconds. Pure.

A Timestamp is of the years 1 to 9999, a Duration of at most 10,000 years, both parts of one sign
(google/protobuf/timestamp.proto, duration.proto). Whatever is beyond is no time: a column has NULL there.
"""

from __future__ import annotations

from typing import Final

FIRST_S: Final = -62_135_596_800
LAST_S: Final = 253_402_300_799
_LONGEST_S: Final = 315_576_000_000
_NANOS: Final = 999_999_999


def instant_us(seconds: int, nanos: int) -> int | None:
    """Microseconds since 1970 of a Timestamp; None where it is none."""
    if FIRST_S <= seconds <= LAST_S and 0 <= nanos <= _NANOS:
        return seconds * 1_000_000 + nanos // 1000
    return None


def duration_us(seconds: int, nanos: int) -> int | None:
    """Microseconds of a Duration; None where it is none. What is below them is cut off towards zero."""
    if abs(seconds) > _LONGEST_S or abs(nanos) > _NANOS or seconds * nanos < 0:
        return None
    return seconds * 1_000_000 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))


def shown_nanos(nanos: int) -> int:
    """Nanos as a column of microseconds has them."""
    return nanos // 1000 * 1000 if nanos >= 0 else -(-nanos // 1000) * 1000
