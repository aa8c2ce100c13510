"""Instants as they are given to a command: a span before now, or a date and a time."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from cli.errors import MisusedError
from daggerclient.times import UNITS

_OLDEST: Final = datetime(1970, 1, 1, tzinfo=UTC)


def ago(text: str, now: datetime) -> datetime | None:
    """Return the instant that lies a span before now: 30s, 10m, 2h, 1d; None for any other text.

    The result is not before 1970, where Kafka's times begin: a longer span selects everything.
    """
    before = _span(text)
    return None if before is None else now - min(before, now - _OLDEST)


def span(flag: str, text: str) -> timedelta:
    """Parse the span of a flag: 30s, 10m, 2h, 1d. Raises: MisusedError."""
    duration = _span(text)
    if duration is None:
        raise MisusedError(f"{flag} {text}: it must be a duration such as 30s, 10m, 2h or 1d")
    return duration


def _span(text: str) -> timedelta | None:
    match = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    return int(match[1]) * UNITS[match[2]] if match else None


def instant(flag: str, text: str, now: datetime) -> datetime:
    """Parse the instant of a flag, in UTC unless it has an offset. Raises: MisusedError."""
    time = ago(text, now) or _parse(text)
    if time is not None:
        return time
    raise MisusedError(
        f"{flag} {text}: it must be a duration such as 30s, 10m, 2h or 1d, or an instant such as"
        " 2026-01-31T12:00:00Z"
    )


def ahead(flag: str, text: str, now: datetime) -> datetime:
    """Parse the instant of a flag that may be to come, a span being after now. Raises: MisusedError."""
    after = _span(text)
    time = _parse(text) if after is None else now + after
    if time is not None:
        return time
    raise MisusedError(
        f"{flag} {text}: it must be a duration from now on such as 10m, 2h or 1d, or an instant such as"
        " 2026-01-31T12:00:00Z"
    )


def _parse(text: str) -> datetime | None:
    """Parse an instant, in UTC unless it has an offset; None for any other text."""
    with suppress(ValueError, OverflowError):
        parsed = datetime.fromisoformat(text)
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return None
