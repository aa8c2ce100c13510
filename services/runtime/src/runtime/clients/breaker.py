"""Whether a sink refuses so much that nothing may be set aside: one wrong migration would drain a topic into
the quarantine. Pure.

One partition of one batch is judged. While few rows are refused they are held: nobody knows yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from runtime.errors import TemporaryError

FLOOD: Final = "SINK_REFUSES_MOST"
"""The reason of a sink whose rows wait because of it."""
# Fewer refused rows than this are no flood.
LEAST: Final = 100
Held = TypeVar("Held")


@dataclass(slots=True)
class FloodBreaker(Generic[Held]):
    """Counts the rows of one sink."""

    most: float | None
    """The share that may be refused; None where nothing is said: all but the last."""
    is_off: bool = False
    """Whether all may be refused."""
    rows: int = 0
    refused: int = 0
    by_server: int = 0
    """So many of them by the server: others can be sent to none."""
    _held: list[Held] = field(default_factory=list)

    def add(self, rows: int, refused: int, what: Held, by_server: int | None = None) -> Sequence[Held]:
        """So many more rows were written or refused; what may be set aside now."""
        self.rows += rows
        self.refused += refused
        self.by_server += refused if by_server is None else by_server
        if refused:
            self._held.append(what)
        if self.is_open or self._may_open:
            return ()
        return self.rest()

    @property
    def _may_open(self) -> bool:
        """Whether nobody knows yet."""
        is_little = not self.is_off and self.refused < LEAST
        return is_little and (self.most is not None or self.refused == self.rows)

    @property
    def is_open(self) -> bool:
        """Whether nothing more may be set aside: too many are refused, or none passes."""
        if self.is_off or self.refused < LEAST:
            return False
        if self.most is None:
            return self.by_server >= LEAST and self.refused == self.rows
        return self.refused > self.most * self.rows

    def why(self, reasons: Iterable[str]) -> TemporaryError:
        """Why the rows of a flood wait. Not in the words of the sink, which may have values of the row."""
        told = ", ".join(sorted({*reasons}))
        counted = f"it refuses {self.refused:,} of {self.rows:,} rows ({told})"
        what = "none is set aside: mend the rows or the sink, or allow it (daggers quarantine allow)"
        return TemporaryError(FLOOD, f"{counted}; {what}.")

    def rest(self) -> Sequence[Held]:
        """What is held, once no more comes; nothing where it is a flood."""
        held, self._held = self._held, []
        return () if self.is_open else held
