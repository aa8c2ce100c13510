"""Numbers of earlier windows, with which alert rules compare (`before`).

A series has one number of each row, window by window, for as long as a rule looks back. Batches add theirs
once they are written, and what is added is stored beside the checkpoints before Spark commits: a batch that
is repeated adds the same again.

Stored are segments of SEGMENT windows, one file each: a window costs the write of one of them.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from chassis.logging import logger
from daggerspec.alertrules import Key
from daggerspec.columns import PAST, WINDOW_END
from daggerspec.query import quote_name
from daggersql.rules.compiled import CompiledRule, PastValue
from daggersql.rules.judged import JudgedRow
from runtime.rules.selection import SelectedRule
from runtime.state.store import Place

FILE: Final = "alert-rules-past-"
"""Begin of the names of files beside the checkpoints; behind it are series and number of the segment."""
MOST_VALUES: Final = 5_000_000
"""Numbers that are remembered of all series; beyond them the oldest windows are forgotten."""
SEGMENT: Final = 64
"""Windows in a file."""
_MICROSECOND: Final = timedelta(microseconds=1)
_PAST, _ROW = "past", "row"


class Series:
    """Numbers of rows by window and key. Windows are their ends, in us since 1970."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._windows: dict[int, tuple[array[int], array[float]]] = {}
        self.size = 0
        """How many numbers it has."""

    @property
    def windows(self) -> list[int]:
        """The windows of which it has rows, the oldest first."""
        return sorted(self._windows)

    @property
    def first(self) -> int | None:
        """The oldest of them; None where there is none."""
        return min(self._windows, default=None)

    def put(self, window: int, values: Mapping[Key, float]) -> None:
        """Take the numbers of a window, in place of those that it has of it."""
        self.forget(window)
        keys, numbers = array("i"), array("d")
        for key, value in values.items():
            place = self._numbers.setdefault(key, len(self._keys))
            if place == len(self._keys):
                self._keys.append(key)
            keys.append(place)
            numbers.append(value)
        self._windows[window] = keys, numbers
        self.size += len(keys)

    def read(self, window: int) -> Iterator[tuple[Key, float]]:
        """Yield the keys and numbers of a window."""
        keys, numbers = self._windows.get(window, ((), ()))
        return ((self._keys[place], number) for place, number in zip(keys, numbers, strict=True))

    def forget(self, window: int) -> None:
        """Forget a window."""
        keys, _ = self._windows.pop(window, ((), ()))
        self.size -= len(keys)


class Past:
    """All series of a launch, and their files. A file that cannot be read or written costs what is in it, and
    never ends a driver.
    """

    def __init__(self, root: Callable[[], Place], created: int, slide: timedelta) -> None:
        """root: directory of the dagger's checkpoints. created: of the dagger; files of another one are
        removed.
        """
        self._root, self._created = root, created
        self._segment = SEGMENT * (slide // _MICROSECOND)
        self._values: dict[str, PastValue] = {}
        self._series: dict[str, Series] = {}

    def choose(self, rules: Sequence[CompiledRule]) -> None:
        """Go on with the series that rules read; others are forgotten, with their files."""
        values = {value.column: value for rule in rules for value in rule.past}
        if values == self._values:
            return
        wanted = {value.series for value in values.values()}
        series = {name: self._series.get(name) or Series() for name in sorted(wanted)}
        try:
            for file in [file for file in self._root().iterdir() if file.name.startswith(FILE)]:
                name = file.name.removeprefix(FILE).partition("-")[0]
                if name not in wanted:
                    file.remove()
                elif name not in self._series:
                    self._load(file, series[name])
        except OSError as problem:
            logger().warning("rules.past_lost", why=str(problem))
        self._series, self._values = series, values

    def _load(self, file: Place, series: Series) -> None:
        """Read a file into a series. Raises: OSError."""
        try:
            stored = json.loads(file.read_text())
            if stored["created"] != self._created:
                file.remove()
                return
            for window, rows in stored["windows"].items():
                series.put(int(window), {tuple(key): number for key, number in rows})
        except (ValueError, KeyError, TypeError) as problem:
            logger().warning("rules.past_lost", file=file.name, why=repr(problem))

    def select(self) -> tuple[SelectedRule, ...]:
        """Return what workers select of each row, as of rules that are true of all."""
        first = {value.series: value for value in reversed(self._values.values())}
        return tuple(
            SelectedRule(PAST + name, first[name].key, (PAST + name,), frozenset()) for name in self._series
        )

    def add(self, rows: Iterable[JudgedRow], closed: int) -> list[JudgedRow]:
        """Take the numbers of a batch that closes windows up to `closed`, and store them; return the other
        rows.
        """
        others: list[JudgedRow] = []
        added: dict[tuple[str, int], dict[Key, float]] = {}
        for row in rows:
            if not row.rule.startswith(PAST):
                others.append(row)
                continue
            name, number = row.rule.removeprefix(PAST), row.values[row.rule]
            if number is not None and name in self._series:
                numbers = added.setdefault((name, row.window), {})
                numbers[row.key] = max(number, numbers.get(row.key, number))
        for (name, window), numbers in added.items():
            self._series[name].put(window, numbers)
        try:
            self._forget(closed)
            for name, segment in sorted({(name, window // self._segment) for name, window in added}):
                self._store(name, segment)
        except OSError as problem:
            logger().warning("rules.past_not_kept", why=str(problem))
        return others

    def learns_until(self, value: PastValue) -> int | None:
        """Return the first window that finds one so long before it, in us; None where there is none yet."""
        first = self._series[value.series].first
        return None if first is None else first + value.lag // _MICROSECOND

    def _forget(self, closed: int) -> None:
        """Forget what no rule looks back to, and the oldest windows where there are too many numbers."""
        oldest = dict.fromkeys(self._series, closed)
        for value in self._values.values():
            oldest[value.series] = min(oldest[value.series], closed - value.lag // _MICROSECOND)
        for name, series in self._series.items():
            self._drop(name, [window for window in series.windows if window <= oldest[name]])
        while (size := sum(series.size for series in self._series.values())) > MOST_VALUES:
            name, series = max(self._series.items(), key=lambda item: item[1].size)
            logger().warning("rules.past_truncated", numbers=size, most=MOST_VALUES)
            self._drop(name, series.windows[: max(len(series.windows) // 10, 1)])

    def _drop(self, name: str, windows: Sequence[int]) -> None:
        """Forget windows of a series, and the files of which all windows are forgotten."""
        series = self._series[name]
        for window in windows:
            series.forget(window)
        segments = {window // self._segment for window in series.windows}
        for segment in {window // self._segment for window in windows} - segments:
            self._file(name, segment).remove()

    def _store(self, name: str, segment: int) -> None:
        series = self._series[name]
        windows = {
            window: [[list(key), number] for key, number in series.read(window)]
            for window in series.windows
            if window // self._segment == segment
        }
        self._file(name, segment).write_text(json.dumps({"created": self._created, "windows": windows}))

    def _file(self, name: str, segment: int) -> Place:
        return self._root() / f"{FILE}{name}-{segment}.json"

    # ---- Rows ----------------------------------------------------------------------------------------------

    def join(self, rows: DataFrame, begin: int, end: int) -> DataFrame:
        """Add a column for each number of an earlier window to rows of windows that end behind `begin`, up to
        `end`, in us; and those that `select` takes.
        """
        if not self._values:
            return rows
        one = next(iter(self._values.values()))
        numbers = {value.series: F.expr(value.number) for value in self._values.values()}
        joined = rows.alias(_ROW)
        stored = self._list_stored(begin, end)
        if stored:
            past = rows.sparkSession.createDataFrame(_build_table(stored, list(self._values), len(one.key)))
            joined = joined.join(F.broadcast(past.alias(_PAST)), _is_same(one.key), "left")
        columns = [
            self._find(value, has_stored=bool(stored), begin=begin, end=end).alias(value.column)
            for value in self._values.values()
        ]
        series = [numbers[name].alias(PAST + name) for name in self._series]
        return joined.select(f"{_ROW}.*", *columns, *series)

    def _list_stored(self, begin: int, end: int) -> dict[tuple[int, Key], dict[str, float]]:
        """Return the numbers that rows of these windows compare with, by their window, key and column."""
        stored: dict[tuple[int, Key], dict[str, float]] = {}
        for value in self._values.values():
            lag, series = value.lag // _MICROSECOND, self._series[value.series]
            for window in series.windows:
                if begin < window + lag <= end:
                    for key, number in series.read(window):
                        stored.setdefault((window + lag, key), {})[value.column] = number
        return stored

    def _find(self, value: PastValue, *, has_stored: bool, begin: int, end: int) -> Column:
        """Build the column of a number: as stored, or of another row where a batch has both windows."""
        stored = [F.col(f"{_PAST}.{quote_name(value.column)}")] if has_stored else []
        lag = value.lag // _MICROSECOND
        if end - begin <= lag:
            return stored[0] if stored else F.lit(None).cast("double")
        keys = ", ".join(f"{_ROW}.{quote_name(name)}" for name in value.key)
        partition = f"PARTITION BY {keys} " if keys else ""
        then = f"INTERVAL '{lag // 1_000_000}' SECOND PRECEDING"
        within = F.expr(
            f"max({value.number}) OVER ({partition}ORDER BY {_ROW}.{quote_name(WINDOW_END)}"
            f" RANGE BETWEEN {then} AND {then})"
        )
        return F.coalesce(*stored, within)


def _build_table(
    stored: Mapping[tuple[int, Key], Mapping[str, float]], columns: Sequence[str], parts: int
) -> pa.Table:
    """Build the table that rows are joined with: window, parts of the key, numbers."""
    windows = pa.array([window for window, _ in stored], pa.timestamp("us", "UTC"))
    keys = {f"k{part}": pa.array([key[part] for _, key in stored], pa.string()) for part in range(parts)}
    numbers = {
        column: pa.array([values.get(column) for values in stored.values()], pa.float64())
        for column in columns
    }
    return pa.table({"w": windows, **keys, **numbers})


def _is_same(key: Sequence[str]) -> Column:
    """Build the condition that a row's window and key are those of numbers of the past."""
    same = F.col(f"{_ROW}.{quote_name(WINDOW_END)}") == F.col(f"{_PAST}.w")
    for part, name in enumerate(key):
        text = F.col(f"{_ROW}.{quote_name(name)}").cast("string")
        same &= text.eqNullSafe(F.col(f"{_PAST}.k{part}"))
    return same
