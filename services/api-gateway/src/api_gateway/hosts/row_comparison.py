"""Compare the rows of a query with those that a test expects. Pure.

Rows have no order. Columns that an expected row leaves out are not compared. Floating-point numbers are equal
within a relative 1e-9, all others exactly; times as instants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from daggers.v1 import gateway_pb2

from daggerspec.columns import Column, Role
from daggerspec.exactjson import dumps
from daggerspec.row import from_proto

Difference = gateway_pb2.TestDifference
_RELATIVE: Final = 1e-9
_NEAR_ZERO: Final = 1e-12
_NAMED: Final = 3
"""Columns that a sentence names."""
SHOWN: Final = 100
"""Differences that are shown."""


def cells_of(row: gateway_pb2.Row, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the values of a row by output column, in the query's order; None where it has none."""
    read = from_proto(row)
    cells: dict[str, Any] = {}
    for column in columns:
        if column.role is Role.TIME:
            cells[column.name] = None if read.time is None else _iso(read.time)
        elif column.role is Role.TAG:
            cells[column.name] = read.tags.get(column.key)
        else:
            cells[column.name] = read.fields.get(column.key, read.fields.get(column.name))
    return cells


def compare_rows(
    expected: Sequence[Mapping[str, Any]], actual: Sequence[Mapping[str, Any]], columns: Sequence[Column]
) -> list[Difference]:
    """Return a difference for each row that is another, missing or too many; none where all match."""
    types = {column.name: column for column in columns}
    differing = _Differing(expected, actual, types)
    matched = _match(differing)
    missing = [number for number in range(len(expected)) if number not in matched]
    left = sorted(set(range(len(actual))) - set(matched.values()))
    pairs = dict(_pair(missing[:SHOWN], left, differing))
    differences = [_missing(number, pairs.get(number), differing) for number in missing]
    for other in sorted(set(left) - set(pairs.values())):
        text = "a row came that was not expected"
        row = dumps(actual[other])
        differences.append(Difference(kind=Difference.KIND_ROW_UNEXPECTED, actual=row, sentence=text))
    return differences


def _missing(number: int, other: int | None, differing: _Differing) -> Difference:
    """Describe an expected row without a match; `other` is the row that is most like it, if there is one."""
    expected = differing.expected[number]
    if other is None:
        return Difference(
            kind=Difference.KIND_ROW_MISSING,
            expected=dumps(expected),
            sentence=f"expected row {number + 1} did not come",
        )
    actual, names = differing.actual[other], list(differing.columns(number, other))
    return Difference(
        kind=Difference.KIND_ROW_DIFFERS,
        expected=dumps(expected),
        actual=dumps(actual),
        columns=names,
        sentence=_sentence(number, names, expected, actual),
    )


def compare_counts(
    expected: Mapping[str, int], late: int, done: gateway_pb2.PreviewDone
) -> Iterator[Difference]:
    """Yield a difference for each count of quarantined records, and of late rows, that is another."""
    for reason in sorted(expected.keys() | dict(done.quarantined).keys()):
        wanted, count = expected.get(reason, 0), done.quarantined.get(reason, 0)
        if wanted != count:
            yield Difference(
                kind=Difference.KIND_QUARANTINED,
                expected=str(wanted),
                actual=str(count),
                sentence=f"{count} quarantined for {reason}, {wanted} expected",
            )
    if late != done.late:
        yield Difference(
            kind=Difference.KIND_LATE,
            expected=str(late),
            actual=str(done.late),
            sentence=f"{done.late} late, {late} expected",
        )


@dataclass(frozen=True, slots=True)
class _Differing:
    """The columns by which expected and actual rows differ."""

    expected: Sequence[Mapping[str, Any]]
    actual: Sequence[Mapping[str, Any]]
    types: Mapping[str, Column]

    def columns(self, number: int, other: int) -> Iterator[str]:
        """Yield the names of the columns whose values are others."""
        row = self.actual[other]
        for name, value in self.expected[number].items():
            if not _is_same(value, row.get(name), self.types.get(name)):
                yield name


def _match(differing: _Differing) -> dict[int, int]:
    """Return which actual row each expected one is, as many as can be: one that leaves columns out may be
    like several.
    """
    likes = [
        [other for other in range(len(differing.actual)) if not any(differing.columns(number, other))]
        for number in range(len(differing.expected))
    ]
    owner: dict[int, int] = {}
    lost = set[int]()
    for number in range(len(likes)):
        lost |= _claim(number, likes, owner, lost)
    return {number: other for other, number in owner.items()}


def _claim(first: int, likes: Sequence[Sequence[int]], owner: dict[int, int], lost: Set[int]) -> Set[int]:
    """Find a row for one more expected row, along a shortest chain of rows that change their owners.

    Returns the rows that were tried in vain: they help no later one, as `lost` does not.
    """
    came_from: dict[int, int] = {}  # actual row -> expected row that asks for it
    asking = [first]
    for number in asking:
        for other in likes[number]:
            if other in came_from or other in lost:
                continue
            came_from[other] = number
            if other in owner:
                asking.append(owner[other])
                continue
            row: int | None = other
            while row is not None:
                taker = came_from[row]
                before = next((other_row for other_row, whose in owner.items() if whose == taker), None)
                owner[row] = taker
                row = before
            return set()
    return came_from.keys()


def _pair(missing: Sequence[int], left: Sequence[int], differing: _Differing) -> Iterator[tuple[int, int]]:
    """Yield for each expected row without a match the free row that is most like it, while there are some."""
    free = list(left)
    for number in missing[: len(left)]:
        others = {other: sum(1 for _ in differing.columns(number, other)) for other in free}
        most_like = min(free, key=others.__getitem__)
        free.remove(most_like)
        yield number, most_like


def _is_same(expected: Any, actual: Any, column: Column | None) -> bool:
    if expected is None or actual is None:
        return expected is actual
    if column is not None and column.role is Role.TAG:
        return _text(expected) == _text(actual)
    if column is not None and (column.role is Role.TIME or column.type in ("timestamp", "date")):
        instants = _instant(expected), _instant(actual)
        return instants[0] == instants[1] if None not in instants else _text(expected) == _text(actual)
    return _is_equal(expected, actual)


def _is_equal(expected: Any, actual: Any) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(actual, float):
        return _is_close(expected, actual)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(
            _is_equal(value, actual[name]) for name, value in expected.items()
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_is_equal, expected, actual))
    if isinstance(expected, Decimal | int | float) and isinstance(actual, Decimal | int):
        return Decimal(str(expected)) == actual
    # a number that a page cannot hold exactly is written as text
    return _text(expected) == _text(actual)


def _is_close(expected: Any, actual: float) -> bool:
    with suppress(TypeError, ValueError, OverflowError):
        number = float(expected)
        same = number == actual or (math.isnan(number) and math.isnan(actual))
        return same or math.isclose(number, actual, rel_tol=_RELATIVE, abs_tol=_NEAR_ZERO)
    return False


def _instant(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    with suppress(ValueError):
        read = datetime.fromisoformat(value)
        return read if read.tzinfo else read.replace(tzinfo=UTC)
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _sentence(
    number: int, names: Sequence[str], expected: Mapping[str, Any], actual: Mapping[str, Any]
) -> str:
    parts = [f"{name} is {dumps(actual.get(name))}, not {dumps(expected[name])}" for name in names[:_NAMED]]
    more = f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"expected row {number + 1}: {'; '.join(parts)}{more}"
