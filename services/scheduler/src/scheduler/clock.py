"""The wall clock, in one place."""

from datetime import UTC, datetime


def now() -> datetime:
    """This instant, UTC."""
    return datetime.now(UTC)
