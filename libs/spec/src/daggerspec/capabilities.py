"""What a kind of sink can do: one value in its module, which rule book, writers and documents go by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Guarantee(StrEnum):
    """How often a row is there when something has crashed."""

    EFFECTIVELY_ONCE = "effectively once"
    """It may be written again, and takes its own place."""
    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a kind can do."""

    guarantee: Guarantee
    because: str
    """Why that is so, in a few words."""
    upserts: bool
    """Whether a row that is written again takes the place of the one before: what `emit: early` needs."""
    repeats_tellable: bool
    """Whether who reads can tell a row that is there twice from two rows."""
    records: bool = False
    """Whether it takes records as they are: what `payload: record` needs."""
    compares_versions: bool = False
    """Whether a row that is updated changes nothing where a newer one is."""
    keeps_order: bool = False
    """Whether rows are read back as they were written, one after the other, whatever is in them."""
    max_rows: int | None = None
    """The most rows of one request; None where its client cuts by itself."""
    max_bytes: int | None = None
    """The most bytes of one request, where they count before the rows do."""
    limits: tuple[str, ...] = ()
    """Which limits of a registered sink it keeps: fields of RateLimit."""
    trigger: timedelta | None = None
    """How often batches are due where all sinks of a dagger would rather have few large ones."""

    @property
    def promise(self) -> str:
        """What becomes of rows when something crashes."""
        return f"{self.guarantee}: {self.because}"
