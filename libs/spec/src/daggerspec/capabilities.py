"""Capabilities of a kind of sink: one value in its module, which rule book, writers and documents go by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Guarantee(StrEnum):
    """The number of times that a row is there after a crash."""

    EFFECTIVELY_ONCE = "effectively once"
    """It may be written again, and takes its own place."""
    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The abilities, guarantees and limits of a kind of sink."""

    guarantee: Guarantee
    because: str
    """The reason of the guarantee, in a few words."""
    upserts: bool
    """True if a row that is written again takes the place of the one before: `emit: early` needs it."""
    repeats_tellable: bool
    """True if a reader can tell a row that is there twice from two rows."""
    records: bool = False
    """True if it takes records as they are: `payload: record` needs it."""
    late: bool = False
    """True if readers can write late records there, with the window that each missed (`late.keep`)."""
    compares_versions: bool = False
    """True if an updated row changes nothing where a newer one stands."""
    keeps_order: bool = False
    """True if rows are read back as they were written, one after the other, whatever is in them."""
    max_rows: int | None = None
    """The most rows of one request; None where its client cuts by itself."""
    max_bytes: int | None = None
    """The most bytes of one request, where they count before the rows do."""
    limits: tuple[str, ...] = ()
    """The limits of a registered sink that it observes: fields of RateLimit."""
    trigger: timedelta | None = None
    """The interval of batches if all sinks of a dagger prefer few large ones."""

    @property
    def promise(self) -> str:
        """The guarantee and its reason, as documents print them."""
        return f"{self.guarantee}: {self.because}"
