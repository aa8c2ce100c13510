"""Decide when the readers of a preview close its windows: once all have planned their last records.

Spark asks each reader once before each batch. A reader's answer must not depend on which of them is first: it
goes by the answers of all when the batch before was planned.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from weakref import WeakValueDictionary

from runtime.source.plan import ReaderPlan

END_OF_TIME_MS: Final = int(datetime(9000, 1, 1, tzinfo=UTC).timestamp()) * 1000
"""Event time that closes every window there may be."""
CLOSED_BY_RANGE: Final = datetime(8000, 1, 1, tzinfo=UTC)
"""Windows that a later watermark closed were closed by the end of the range, not by a record."""


class Rounds:
    """Rounds of the readers of one query, for one thread at a time."""

    def __init__(self) -> None:
        self._round: set[int] = set()
        self._read: dict[int, bool] = {}
        self._all = False

    def ask(self, reader: int) -> bool:
        """Tell whether all readers had planned their last records before this batch."""
        if reader in self._round:  # a batch more
            self._round.clear()
            self._all = all(self._read.values())
        self._round.add(reader)
        return self._all

    def tell(self, reader: int, *, read: bool) -> None:
        """Note whether a reader has planned its last record."""
        self._read[reader] = read


_rounds: WeakValueDictionary[tuple[str, int, str], Rounds] = WeakValueDictionary()


def rounds_of(plan: ReaderPlan) -> Rounds:
    """Return the rounds of a query: its readers that are in this process share them."""
    query = plan.dagger, plan.generation, plan.query
    rounds = _rounds.get(query)
    if rounds is None:
        rounds = _rounds[query] = Rounds()
    return rounds
