"""The sink `log`: prints rows to the driver's log, at most `limit` for each batch, one JSON object a line.

Guarantee: for people to look at. A batch that is repeated after a crash is printed again; rows beyond the
limit are counted and not shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from itertools import count

import pyarrow as pa

from chassis.tail import Tail
from daggerspec import rundir
from daggerspec.row import Row
from daggerspec.selection import Selection
from daggersql import Role
from runtime.encode.json_text import KEY, VALUE, join_members, texts
from runtime.encode.readback import from_columns, from_json
from runtime.errors import external
from runtime.sinks import Outcome, Source, Target

PREFIX = "row "
READ_RANK = 2


def check(target: Target) -> None:
    """Raise `JobError` for a column that has no text; nothing else can be wrong with a log."""
    LogWriter(target, 0).write(target.no_rows, 0)


def open(target: Target) -> LogWriter:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    return LogWriter(target, limit_of(target))


def limit_of(target: Target) -> int:
    """Return how many rows of a batch are printed."""
    return target.resolved.sink.log.limit


class LogWriter:
    """Turns the first rows of a partition into lines; the driver prints them up to the limit of the batch."""

    def __init__(self, target: Target, limit: int) -> None:
        self._layout = target.layout
        self._left = limit

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Make lines of the first rows."""
        del batch_id
        first = batch.slice(0, self._left)
        self._left -= first.num_rows
        columns = [
            (column.name, texts(values, KEY if column.role is Role.TAG else VALUE))
            for column, values in self._layout.visible(first)
        ]
        return Outcome(printed=[f"{PREFIX}{text}" for text in join_members(columns)])

    def finish(self) -> Outcome:
        """Return no lines: the driver has them."""
        return Outcome()


def read(source: Source, wanted: Selection) -> list[Row]:
    """Read the rows printed last, the last one first. Print times are not known: `since` is of their own
    time.
    """
    most = None if wanted.order else wanted.limit
    with closing(_looks(source, most, lambda row: wanted.wants(row) and _is_since(row, wanted))) as looks:
        return wanted.first(next(looks))


def watch(source: Source, limit: int) -> Generator[list[Row]]:
    """Read the last rows again and again: only what was printed meanwhile is read."""
    return _looks(source, limit, lambda _: True)


def _looks(source: Source, most: int | None, wanted: Callable[[Row], bool]) -> Generator[list[Row]]:
    log, rows, numbers = source.run_dir / rundir.LOG, deque[Row](maxlen=most), count()
    try:
        while not log.exists():
            yield []
        with closing(Tail(log)) as tail:
            while True:
                while lines := tail.read():
                    read = (_row(line, f"{log.name}/{next(numbers)}") for line in lines)
                    rows.extend(row for row in read if row is not None and wanted(row))
                yield [*reversed(rows)]
    except OSError as problem:
        raise external("NO_LOG", f"The log of {source.dagger} cannot be read: {problem.strerror}.") from None


def _row(line: str, identity: str) -> Row | None:
    _, prefix, text = line.partition(PREFIX)
    try:
        return from_columns(from_json(text), identity) if prefix else None
    except ValueError:
        return None  # some other line with the word in it


def _is_since(row: Row, wanted: Selection) -> bool:
    return wanted.since is None or (row.time is not None and row.time >= wanted.since)
