"""Horizon of the fold: the number of records for which every reader remembers ids and their answers.

A time would depend on the clocks of whoever wrote the records. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Horizon:
    """An id is remembered for `records` records at least, and for less than a block more."""

    records: int = 100_000
    """A multiple of `block`."""
    block: int = 200
    """Ids are forgotten, and kept in snapshots, by blocks of so many sequences."""

    def block_of(self, sequence: int) -> int:
        """Return the first sequence of a record's block."""
        return sequence - sequence % self.block

    def since(self, sequence: int) -> int:
        """Return the first sequence that is remembered once the record at `sequence` is folded."""
        return max(self.block_of(sequence) - self.records, 0)


STANDARD: Final = Horizon()
