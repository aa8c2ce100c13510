"""The wall clock, in one place."""

from datetime import UTC, datetime


def now() -> datetime:
    """Return this instant, UTC."""
    return datetime.now(UTC)
