"""Which rows a server refuses: what is refused whole is tried again in halves, until each row is known. Pure.

A try of some rows ends in one of three ways. It is taken; it is refused, of rows that the answer names, or of
nobody knows which; or it says something about the server, which is an error and no business of this module.

A row that is refused alone, while others pass, is refused for its own sake. Where none passes, an answer that
is known to be about values still counts, and one that is not is the destination's: its rows wait.

One bad row among n costs at most 2 log2(n) further tries: of two halves one passes. Many are bounded by what
was learnt in the last minute, when first parts are as small as there are bad rows; and by time, where no row
passes at all. Rows are tried in their order, so that of one key the last one is written last.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Final, TypeAlias

from runtime.encode.rows import Refusal
from runtime.errors import JobError, TemporaryError

Rows: TypeAlias = Sequence[int]
NONE_PASSES: Final = "SINK_REFUSES_MOST"
"""The reason of a destination that takes none of many rows."""
BUDGET_S: Final = 20.0
"""For so long rows are divided, of which none passes."""
MEMORY_S: Final = 60.0
"""For so long it counts what was learnt of a destination."""
MANY: Final = 100
"""Fewer rows than this that are refused for their values say nothing of their destination."""
_BEST: Final = 0.7
"""Of a part that is as likely to pass as not, how many of its rows are bad (ln 2)."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a try was not taken, where that may be for the sake of its rows. No sentence quotes a value."""

    reason: str
    detail: str
    otherwise: JobError | None = None
    """What it is where no row passes: an error of the destination. None: of values, whatever passes."""
    rows: Rows | None = None
    """The rows that are meant, the others of the try being written; None: nobody knows which."""


@dataclass(slots=True)
class Learnt:
    """What the tries of the last minute have shown of one destination; times are of one monotonic clock."""

    _tried: deque[tuple[float, int, int]] = field(default_factory=deque)
    """When so many rows were tried, and so many of them were refused."""
    _closed: float = float("-inf")
    """When no row of many has passed."""
    _large: tuple[float, int] = (float("-inf"), 0)
    """When a row was refused for its size, and what that is in bytes."""
    _taken: int = 0
    """The bytes of the largest row that was ever taken. It is kept: quotas last for longer than a minute."""

    def settled(self, now: float, rows: int, refused: int) -> None:
        """So many rows are settled, some of which have passed, and so many of which are refused."""
        self._forget(now)
        self._tried.append((now, rows, refused))

    def refuses_bytes(self, now: float, size: int) -> None:
        """A row of so many bytes was refused for its size."""
        self._large = now, size

    def takes_bytes(self, size: int) -> None:
        """A row of so many bytes was taken."""
        self._taken = max(self._taken, size)

    def may_be_too_large(self, size: int) -> bool:
        """Whether none that large was taken yet."""
        return size > self._taken

    def is_too_large(self, now: float, size: int) -> bool:
        """Whether one that is no larger was refused for that a moment ago."""
        since, least = self._large
        return now - since < MEMORY_S and size >= least and self.may_be_too_large(size)

    def closed(self, now: float) -> None:
        """No row passes, however they were divided."""
        self._closed = now

    def was_closed(self, now: float) -> bool:
        """Whether none passed a moment ago: then one row by itself is enough to tell that none does now."""
        return now - self._closed < MEMORY_S

    def size(self, now: float, rows: int) -> int:
        """How many rows of so many are best tried at once."""
        self._forget(now)
        tried, refused = sum(entry[1] for entry in self._tried), sum(entry[2] for entry in self._tried)
        return max(min(rows, int(_BEST * tried / refused)), 1) if refused else rows

    def _forget(self, now: float) -> None:
        while self._tried and now - self._tried[0][0] >= MEMORY_S:
            self._tried.popleft()


@lru_cache(maxsize=64)
def learnt_of(destination: Hashable) -> Learnt:
    """What this process knows of a destination, kept between batches."""
    del destination
    return Learnt()


def sized_parts(
    texts: Sequence[bytes | None], refused: Sequence[Refusal], most_rows: int, most_bytes: int
) -> list[Rows]:
    """The rows that are not refused, as many in a part as a request may have, and bytes of their texts."""
    never = {refusal.row for refusal in refused}
    cut, size = list[list[int]](), most_bytes
    for row, text in enumerate(texts):
        if text is None or row in never:
            continue
        size += len(text)
        if size > most_bytes or len(cut[-1]) == most_rows:
            cut.append([])
            size = len(text)
        cut[-1].append(row)
    return [*cut]


class Bisection:
    """The rows of one list, each on its way to be settled."""

    def __init__(
        self,
        parts: Iterable[Rows],
        learnt: Learnt | None = None,
        now: float = 0.0,
        *,
        may_refuse: bool = False,
    ) -> None:
        """`parts` are the rows as requests may have them at most.

        may_refuse: somebody has said that all of them may be refused: each is tried, however many are.
        """
        self._learnt = learnt or Learnt()
        self._may_refuse = may_refuse
        self._open = deque(self._cut(parts, now))
        self._alone: list[tuple[int, Refused]] = []
        self._passed = self._compared = 0
        """How many rows are written; and how many were refused before the last of them."""
        self._began: float | None = None
        """Since when rows are refused."""
        self._is_given_up = self._is_short = False
        """Whether it ends before all rows are tried; and that without a look at most of them."""

    def _cut(self, parts: Iterable[Rows], now: float) -> Iterator[Rows]:
        for rows in parts:
            size = self._learnt.size(now, len(rows))
            yield from (rows[start : start + size] for start in range(0, len(rows), size))

    @property
    def open(self) -> int:
        """Requests that are to be tried still, as far as is known."""
        return len(self._open)

    def next(self, now: float) -> Rows | None:
        """The rows to be tried now; None where nothing is left, or where no row passes for too long."""
        if not self._open:
            return None
        if not self._may_refuse and not self._passed and self._began is not None and self._may_be_closed:
            self._is_short = self._learnt.was_closed(now)
            self._is_given_up = self._is_short or now - self._began >= BUDGET_S
            if self._is_given_up:
                return None
        return self._open.popleft()

    def again(self, parts: Sequence[Rows]) -> None:
        """These are tried once more, as they are, before all others."""
        self._open.extendleft(reversed(parts))

    def taken(self, rows: Rows) -> None:
        """All of them are written."""
        self._passes(len(rows))

    def _passes(self, rows: int) -> None:
        """So many more are written: what was refused before was so while others passed."""
        self._passed += rows
        self._compared = len(self._alone) if rows else self._compared

    def refused(self, rows: Rows, why: Refused, now: float) -> None:
        """They were refused, or those of them that are meant; the others are written."""
        meant = rows if len(rows) == 1 else why.rows
        if meant is not None:
            self.answered(rows, [(row, why) for row in meant], (), now)
            return
        self._began = now if self._began is None else self._began
        half = len(rows) // 2
        self.again((rows[:half], rows[half:]))

    def answered(
        self, rows: Rows, alone: Sequence[tuple[int, Refused]], again: Sequence[Rows], now: float
    ) -> None:
        """Each by itself: these were refused, these are to be tried once more, and the others are written."""
        if alone and self._began is None:
            self._began = now
        self._alone += alone
        self._passes(len(rows) - len(alone) - sum(map(len, again)))
        self.again(again)

    def settled(
        self, now: float, *, is_sound: Callable[[], bool] | None = None, is_asked_again: bool = False
    ) -> list[Refusal]:
        """The rows that are refused for their own sake, once no more are tried.

        `is_sound` is asked where no row passed whether the destination takes any; with `is_asked_again` also
        where none has passed since the last were refused. Raises: JobError, the destination's, where it
        takes none.
        """
        if self._passed:
            self._learnt.settled(now, self._passed + len(self._alone), len(self._alone))
            is_asked_again = is_asked_again and self.is_in_doubt and not self._may_refuse
            is_closed = is_asked_again and is_sound is not None and not is_sound()
        else:
            is_closed = bool(self._alone) and not self._may_refuse and self._is_closed(is_sound)
            if is_closed and not self._is_short:
                self._learnt.closed(now)
        if is_closed:
            error = self._destination()
            self.reopen()
            raise error
        assert not self._open, "whatever is not refused counts as written"
        return [
            Refusal(row, why.reason, why.detail, by_server=True)
            for row, why in sorted(self._alone, key=itemgetter(0))
        ]

    @property
    def is_in_doubt(self) -> bool:
        """Whether no row has passed since some were refused, and it may be the destination that is why."""
        return self._unclear is not None

    @property
    def _unclear(self) -> Refused | None:
        since = self._alone[self._compared :]
        return next((why for _, why in since if why.otherwise is not None), None)

    @property
    def _may_be_closed(self) -> bool:
        return len(self._alone) >= MANY or self._unclear is not None

    def _is_closed(self, is_sound: Callable[[], bool] | None) -> bool:
        """Whether the destination is the reason that no row passes."""
        if self._is_given_up:
            return True
        return self._unclear is not None and (is_sound is None or not is_sound())

    def _destination(self) -> JobError:
        """What is wrong with it."""
        unclear = self._unclear
        if unclear is not None and unclear.otherwise is not None:
            return unclear.otherwise
        reasons = ", ".join(sorted({why.reason for _, why in self._alone}))
        told = f"it refuses each of {len(self._alone):,} rows that were tried alone ({reasons})"
        return TemporaryError(
            NONE_PASSES,
            f"{told}; none is set aside: mend the rows or the sink, or allow it (daggers quarantine allow).",
        )

    def reopen(self) -> None:
        """What was refused since the last row passed is not settled: who asks once more finds it open."""
        self._open.extendleft([row] for row, _ in reversed(self._alone[self._compared :]))
        del self._alone[self._compared :]
        self._began, self._is_given_up = None, False


def divide(
    parts: Iterable[Rows],
    attempt: Callable[[Rows], Refused | None],
    learnt: Learnt,
    *,
    may_refuse: bool = False,
    is_sound: Callable[[], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Refusal]:
    """Try rows until each is written or refused; the refusals.

    `attempt` writes rows, all or none of those that it does not name, and returns why it did not; it raises
    JobError for what is about the server, and so does this, as for a destination that takes no row.
    """
    rows_of = Bisection(parts, learnt, clock(), may_refuse=may_refuse)
    while (rows := rows_of.next(clock())) is not None:
        why = attempt(rows)
        if why is None:
            rows_of.taken(rows)
        else:
            rows_of.refused(rows, why, clock())
    return rows_of.settled(clock(), is_sound=is_sound)
