"""Instants as they are given to a command: a span before now, or a date and a time."""

import re
from contextlib import suppress
from datetime import UTC, datetime

from cli.errors import MisusedError
from daggerclient.times import UNITS


def ago(text: str, now: datetime) -> datetime | None:
    """The instant that is a span before now: 30s, 10m, 2h, 1d; None for any other text."""
    span = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    return now - int(span[1]) * UNITS[span[2]] if span else None


def instant(flag: str, text: str, now: datetime) -> datetime:
    """The instant that a flag says, in UTC unless it says otherwise. Raises: MisusedError."""
    if (before := ago(text, now)) is not None:
        return before
    with suppress(ValueError, OverflowError):
        said = datetime.fromisoformat(text)
        return said.astimezone(UTC) if said.tzinfo else said.replace(tzinfo=UTC)
    raise MisusedError(
        f"{flag} {text}: it must be a duration such as 30s, 10m, 2h or 1d, or an instant such as"
        " 2026-01-31T12:00:00Z"
    )
