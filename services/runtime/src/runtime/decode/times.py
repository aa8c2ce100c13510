"""Convert times of Protobuf to microseconds, where they are in range. Pure.

A Timestamp is of the years 1 to 9999, a Duration of at most 10,000 years, both parts of one sign
(google/protobuf/timestamp.proto, duration.proto). Whatever is beyond has no column value: it is NULL.
"""

from __future__ import annotations

from typing import Final

FIRST_S: Final = -62_135_596_800
LAST_S: Final = 253_402_300_799
_LONGEST_S: Final = 315_576_000_000
_NANOS: Final = 999_999_999


def instant_us(seconds: int, nanos: int) -> int | None:
    """Convert a Timestamp to microseconds since 1970; None where it is beyond the range."""
    if FIRST_S <= seconds <= LAST_S and 0 <= nanos <= _NANOS:
        return seconds * 1_000_000 + nanos // 1000
    return None


def duration_us(seconds: int, nanos: int) -> int | None:
    """Convert a Duration to microseconds, cut off towards zero; None where it is beyond the range."""
    if abs(seconds) > _LONGEST_S or abs(nanos) > _NANOS or seconds * nanos < 0:
        return None
    return seconds * 1_000_000 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))


def shown_nanos(nanos: int) -> int:
    """Cut nanos to whole microseconds, towards zero, as columns have them."""
    return nanos // 1000 * 1000 if nanos >= 0 else -(-nanos // 1000) * 1000
