"""Stop a sink that refuses most rows from filling the quarantine: one wrong migration could drain a topic
into it. Pure.

The breaker decides for one partition of one batch. While few rows are refused they are pending: it is not
clear yet whether most will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from runtime.errors import TemporaryError

FLOOD: Final = "SINK_REFUSES_MOST"
"""Reason of a sink whose rows wait because the breaker is open."""
# Fewer refused rows than this are no flood.
LEAST: Final = 100
Rows = TypeVar("Rows")


@dataclass(slots=True)
class FloodBreaker(Generic[Rows]):
    """Counts rows of one sink, and holds refused ones back until they may be quarantined."""

    most: float | None
    """Share of rows that may be refused; None where no rule is set: any, but not all."""
    is_off: bool = False
    """Set where somebody has allowed that all rows are refused."""
    rows: int = 0
    refused: int = 0
    by_server: int = 0
    """Rows of `refused` that the server refused; the others could not be sent to any server."""
    _pending: list[Rows] = field(default_factory=list)

    def add(self, rows: int, refused: int, pending: Rows, by_server: int | None = None) -> Sequence[Rows]:
        """Count rows, and return what may be quarantined now.

        rows: written and refused ones. pending: identifies the refused rows. by_server: how many of them the
        server refused; None: all.
        """
        self.rows += rows
        self.refused += refused
        self.by_server += refused if by_server is None else by_server
        if refused:
            self._pending.append(pending)
        if self.is_open or self._may_open:
            return ()
        return self.flush()

    @property
    def _may_open(self) -> bool:
        """True while it is still unclear if most rows are refused."""
        is_little = not self.is_off and self.refused < LEAST
        return is_little and (self.most is not None or self.refused == self.rows)

    @property
    def is_open(self) -> bool:
        """True if no more rows may be quarantined: too many are refused, or all."""
        if self.is_off or self.refused < LEAST:
            return False
        if self.most is None:
            return self.by_server >= LEAST and self.refused == self.rows
        return self.refused > self.most * self.rows

    def flood_error(self, reasons: Iterable[str]) -> TemporaryError:
        """Build the error that makes the rows wait. It quotes no text of the sink: that may have values."""
        reasons_text = ", ".join(sorted({*reasons}))
        counts_text = f"it refuses {self.refused:,} of {self.rows:,} rows ({reasons_text})"
        remedy = "none is quarantined: mend the rows or the sink, or allow it by `daggers quarantine allow`"
        return TemporaryError(FLOOD, f"{counts_text}; {remedy}.")

    def flush(self) -> Sequence[Rows]:
        """Return what is pending at the end of the batch; nothing while the breaker is open."""
        pending, self._pending = self._pending, []
        return () if self.is_open else pending
