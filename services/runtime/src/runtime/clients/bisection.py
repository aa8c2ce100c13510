"""Find the rows that a server refuses by bisection: a refused request is tried again in halves. Pure.

A try of some rows ends in one of three ways: they are accepted; they are refused, and the answer may name
which rows; or the answer is about the server, which is an error that this module passes on.

A row that is refused alone, while others are accepted, is bad by itself. Where no row is accepted, a refusal
that is known to be about values still counts; any other is the destination's, and its rows wait.

One bad row among n costs at most 2 log2(n) further tries, as one of two halves is accepted. The cost of many
bad rows is bounded by the history of the last minute, by which first parts are made small, and by a time
budget where no row is accepted at all. Rows are tried in order, so that the last row of a key is written
last.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, TypeAlias

from runtime.encode.rows import Refusal
from runtime.errors import JobError, TemporaryError
from runtime.recent import cache_in_use

Rows: TypeAlias = Sequence[int]
NONE_PASSES: Final = "SINK_REFUSES_MOST"
"""Reason of a destination that accepts none of many rows."""
BUDGET_S: Final = 20.0
"""Time for which rows are divided while none is accepted."""
MEMORY_S: Final = 60.0
"""Time for which the history of a destination counts."""
MANY: Final = 100
"""Rows refused for their values from which on the destination itself is in doubt."""
_BEST: Final = 0.7
"""Expected bad rows of a part that is accepted with probability 1/2: ln 2."""


@dataclass(frozen=True, slots=True)
class RefusalCause:
    """Cause of a refused try, perhaps in its rows. No text quotes a value."""

    reason: str
    detail: str
    otherwise: JobError | None = None
    """Error of the destination to report if no row is accepted; None: it is about values in any case."""
    rows: Rows | None = None
    """The refused rows, the others of the try being written; None: the answer does not tell which."""


@dataclass(slots=True)
class DestinationHistory:
    """Results of one destination in the last minute. Times are seconds of one monotonic clock."""

    _recent: deque[tuple[float, int, int]] = field(default_factory=deque)
    """Time, rows tried, rows refused."""
    _closed_at: float = float("-inf")
    """Last time that no row was accepted, however many were tried."""
    _smallest_refused: tuple[float, int] = (float("-inf"), 0)
    """Last refusal of a row for its size: time, and size in bytes."""
    _largest_accepted: int = 0
    """Bytes of the largest row ever accepted. It does not expire: quotas last for longer than a minute."""

    def record_settled(self, now: float, rows: int, refused: int) -> None:
        """Record a finished bisection of `rows`, of which some were accepted and `refused` were not."""
        self._forget(now)
        self._recent.append((now, rows, refused))

    def record_refused_size(self, now: float, size: int) -> None:
        """Record that a row of `size` bytes was refused for its size."""
        self._smallest_refused = now, size

    def record_accepted_size(self, size: int) -> None:
        """Record that a row of `size` bytes was accepted."""
        self._largest_accepted = max(self._largest_accepted, size)

    def may_be_too_large(self, size: int) -> bool:
        """Tell whether no row of this size was accepted yet."""
        return size > self._largest_accepted

    def is_too_large(self, now: float, size: int) -> bool:
        """Tell whether a row of at most this size was refused for its size within the last minute."""
        since, least = self._smallest_refused
        return now - since < MEMORY_S and size >= least and self.may_be_too_large(size)

    def record_closed(self, now: float) -> None:
        """Record that no row is accepted, however they are divided."""
        self._closed_at = now

    def was_closed(self, now: float) -> bool:
        """Tell whether no row was accepted within the last minute: one row alone is then enough to try."""
        return now - self._closed_at < MEMORY_S

    def size(self, now: float, rows: int) -> int:
        """Return how many of `rows` are best tried at once, by the share of bad rows lately."""
        self._forget(now)
        tried, refused = sum(entry[1] for entry in self._recent), sum(entry[2] for entry in self._recent)
        return max(min(rows, int(_BEST * tried / refused)), 1) if refused else rows

    def _forget(self, now: float) -> None:
        while self._recent and now - self._recent[0][0] >= MEMORY_S:
            self._recent.popleft()


@cache_in_use
def history_of(destination: Hashable) -> DestinationHistory:
    """Return the history of a destination, the same one in all batches of this process."""
    del destination
    return DestinationHistory()


def sized_parts(
    texts: Sequence[bytes | None], refused: Sequence[Refusal], most_rows: int, most_bytes: int
) -> list[Rows]:
    """Split the rows that are not refused into parts that a request may have.

    texts: the serialised rows; None for a row that is not sent. most_bytes: limit of a part's texts.
    """
    never = {refusal.row for refusal in refused}
    sized, size = list[list[int]](), most_bytes
    for row, text in enumerate(texts):
        if text is None or row in never:
            continue
        size += len(text)
        if size > most_bytes or len(sized[-1]) == most_rows:
            sized.append([])
            size = len(text)
        sized[-1].append(row)
    return [*sized]


class Bisection:
    """Bisects the rows of one list until each is accepted or refused."""

    def __init__(
        self,
        parts: Iterable[Rows],
        history: DestinationHistory | None = None,
        now: float = 0.0,
        *,
        may_refuse: bool = False,
    ) -> None:
        """Queue the rows. parts: rows of the largest requests allowed.

        may_refuse: somebody has allowed that all rows are refused: each is tried, however many are.
        """
        self._history = history or DestinationHistory()
        self._may_refuse = may_refuse
        self._open = deque(self._cut_parts(parts, now))
        self._refused_alone: list[tuple[int, RefusalCause]] = []
        self._accepted = self._confirmed = 0
        """Accepted rows; and rows refused before the last of these, which are confirmed by it."""
        self._began: float | None = None
        """Time of the first refusal."""
        self._is_given_up = self._is_short = False
        """True if it gave up before all rows were tried; and if that was after few tries, by the history."""

    def _cut_parts(self, parts: Iterable[Rows], now: float) -> Iterator[Rows]:
        for rows in parts:
            size = self._history.size(now, len(rows))
            yield from (rows[start : start + size] for start in range(0, len(rows), size))

    @property
    def open(self) -> int:
        """Requests in the queue."""
        return len(self._open)

    def next(self, now: float) -> Rows | None:
        """Return the rows to try now; None when nothing is left, or no row was accepted for too long."""
        if not self._open:
            return None
        if not self._may_refuse and not self._accepted and self._began is not None and self._may_be_closed:
            self._is_short = self._history.was_closed(now)
            self._is_given_up = self._is_short or now - self._began >= BUDGET_S
            if self._is_given_up:
                return None
        return self._open.popleft()

    def requeue(self, parts: Sequence[Rows]) -> None:
        """Queue parts again, unchanged, before all others."""
        self._open.extendleft(reversed(parts))

    def accept(self, rows: Rows) -> None:
        """Count all these rows as written."""
        self._count_accepted(len(rows))

    def _count_accepted(self, rows: int) -> None:
        """Count written rows; they confirm the refusals before them, as others were accepted."""
        self._accepted += rows
        self._confirmed = len(self._refused_alone) if rows else self._confirmed

    def reject(self, rows: Rows, cause: RefusalCause, now: float) -> None:
        """Refuse the rows that the cause names, the others being written; halve them if it names none."""
        named = rows if len(rows) == 1 else cause.rows
        if named is not None:
            self.settle_each(rows, [(row, cause) for row in named], (), now)
            return
        self._began = now if self._began is None else self._began
        half = len(rows) // 2
        self.requeue((rows[:half], rows[half:]))

    def settle_each(
        self, rows: Rows, alone: Sequence[tuple[int, RefusalCause]], again: Sequence[Rows], now: float
    ) -> None:
        """Settle rows one by one: refuse `alone`, try `again` once more, count the others as written."""
        if alone and self._began is None:
            self._began = now
        self._refused_alone += alone
        self._count_accepted(len(rows) - len(alone) - sum(map(len, again)))
        self.requeue(again)

    def finish(
        self, now: float, *, is_sound: Callable[[], bool] | None = None, is_asked_again: bool = False
    ) -> list[Refusal]:
        """Return the refusals, once no more rows are tried.

        is_sound: tells whether the destination accepts any row; called where none was accepted, and with
        `is_asked_again` also where none was since the last refusals. Raises: JobError of the destination
        where it accepts none.
        """
        if self._accepted:
            self._history.record_settled(
                now, self._accepted + len(self._refused_alone), len(self._refused_alone)
            )
            is_asked_again = is_asked_again and self.is_in_doubt and not self._may_refuse
            is_closed = is_asked_again and is_sound is not None and not is_sound()
        else:
            is_closed = bool(self._refused_alone) and not self._may_refuse and self._is_closed(is_sound)
            if is_closed and not self._is_short:
                self._history.record_closed(now)
        if is_closed:
            error = self._destination_error()
            self.reopen()
            raise error
        assert not self._open, "whatever is not refused counts as written"
        return [
            Refusal(row, cause.reason, cause.detail, by_server=True)
            for row, cause in sorted(self._refused_alone, key=itemgetter(0))
        ]

    @property
    def is_in_doubt(self) -> bool:
        """True if no row was accepted since some were refused, and the destination may be the cause."""
        return self._unclear is not None

    @property
    def _unclear(self) -> RefusalCause | None:
        since = self._refused_alone[self._confirmed :]
        return next((cause for _, cause in since if cause.otherwise is not None), None)

    @property
    def _may_be_closed(self) -> bool:
        return len(self._refused_alone) >= MANY or self._unclear is not None

    def _is_closed(self, is_sound: Callable[[], bool] | None) -> bool:
        """Decide whether the destination is the reason that no row is accepted."""
        if self._is_given_up:
            return True
        return self._unclear is not None and (is_sound is None or not is_sound())

    def _destination_error(self) -> JobError:
        """Build the error of a destination that accepts no row."""
        unclear = self._unclear
        if unclear is not None and unclear.otherwise is not None:
            return unclear.otherwise
        reasons = ", ".join(sorted({cause.reason for _, cause in self._refused_alone}))
        refusals_text = (
            f"it refuses each of {len(self._refused_alone):,} rows that were tried alone ({reasons})"
        )
        return TemporaryError(
            NONE_PASSES,
            f"{refusals_text}; none is quarantined: mend the rows or the sink, or allow it by"
            " `daggers quarantine allow`.",
        )

    def reopen(self) -> None:
        """Queue the unconfirmed refusals again, so that the next run of the same rows tries them."""
        self._open.extendleft([row] for row, _ in reversed(self._refused_alone[self._confirmed :]))
        del self._refused_alone[self._confirmed :]
        self._began, self._is_given_up = None, False


def divide(
    parts: Iterable[Rows],
    attempt: Callable[[Rows], RefusalCause | None],
    history: DestinationHistory,
    *,
    may_refuse: bool = False,
    is_sound: Callable[[], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Refusal]:
    """Try rows until each is written or refused, and return the refusals.

    attempt: writes rows, and returns why it did not: then it has written all rows but the named ones, or none
    if it names none. Raises: JobError of `attempt`, which is about the server, or of a destination that
    accepts no row.
    """
    bisection = Bisection(parts, history, clock(), may_refuse=may_refuse)
    while (rows := bisection.next(clock())) is not None:
        cause = attempt(rows)
        if cause is None:
            bisection.accept(rows)
        else:
            bisection.reject(rows, cause, clock())
    return bisection.finish(clock(), is_sound=is_sound)
