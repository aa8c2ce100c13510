"""When the readers of a preview close its windows: once all have planned their last records.

Spark asks each reader once before each batch. What one says must not depend on which of them is asked first:
it goes by what all had said when the batch before was planned.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from weakref import WeakValueDictionary

from runtime.source.plan import ReaderPlan

END_OF_TIME_MS: Final = int(datetime(9000, 1, 1, tzinfo=UTC).timestamp()) * 1000
"""The event time that closes every window there may be."""
CLOSED_BY_RANGE: Final = datetime(8000, 1, 1, tzinfo=UTC)
"""A watermark behind this one closed windows because the range has ended, not because a record said so."""


class Rounds:
    """The readers of one query, for one thread at a time."""

    def __init__(self) -> None:
        self._asked: set[int] = set()
        self._read: dict[int, bool] = {}
        self._all = False

    def ask(self, reader: int) -> bool:
        """Whether all readers had planned their last records before this batch."""
        if reader in self._asked:  # a batch more
            self._asked.clear()
            self._all = all(self._read.values())
        self._asked.add(reader)
        return self._all

    def tell(self, reader: int, *, read: bool) -> None:
        """Whether a reader has planned its last record."""
        self._read[reader] = read


_rounds: WeakValueDictionary[tuple[str, int, str], Rounds] = WeakValueDictionary()


def rounds_of(plan: ReaderPlan) -> Rounds:
    """Those of a query: its readers that are in this process share them."""
    query = plan.dagger, plan.generation, plan.query
    rounds = _rounds.get(query)
    if rounds is None:
        rounds = _rounds[query] = Rounds()
    return rounds
