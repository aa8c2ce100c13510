"""Rules of the tests of a query, as they show without schemas: names, tables, JSON, columns, limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from daggers.v1 import spec_pb2

from daggerspec import limits
from daggerspec.columns import Column
from daggerspec.exactjson import loads
from daggerspec.nearest import hint, nearest
from daggerspec.protobuf import is_instant
from daggerspec.violation import Violation

REASONS: Final = ("NO_EVENT_TIME", "FROM_THE_FUTURE")
"""Reasons for which a given record may be quarantined: it is a message, and so can be decoded."""
_NAME_LENGTH: Final = 200


def without_tests(spec: spec_pb2.DaggerSpec) -> spec_pb2.DaggerSpec:
    """Copy what of a specification decides its rows: neither its tests, nor what is said of its alerts."""
    rest = spec_pb2.DaggerSpec()
    rest.CopyFrom(spec)
    del rest.tests[:]
    del rest.alerts[:]
    rest.conditions.clear()
    return rest


def runs_alike(spec: spec_pb2.DaggerSpec, other: spec_pb2.DaggerSpec) -> bool:
    """Return whether two specifications differ in their tests and alerts at most: no driver has to end
    for that, as it runs no tests, and takes rules between two batches.
    """
    return spec == other or without_tests(spec) == without_tests(other)


def violations(path: str, spec: spec_pb2.DaggerSpec, columns: Sequence[Column] | None) -> Iterator[Violation]:
    """Yield every violation of a specification's tests, below `path`; `columns`: None where not known."""
    if len(spec.tests) > limits.QUERY_TESTS:
        problem = f"must not be more than {limits.QUERY_TESTS}, and are {len(spec.tests)}"
        yield Violation(f"{path}.tests", problem, "TOO_MANY")
    size = sum(test.ByteSize() for test in spec.tests)
    if size > limits.TESTS_BYTES:
        problem = f"have {size:,} bytes; together they may have {limits.TESTS_BYTES:,}"
        metadata = {"size": str(size), "limit": str(limits.TESTS_BYTES)}
        yield Violation(f"{path}.tests", problem, "TOO_LARGE", metadata=metadata)
        return
    names = Counter(test.name for test in spec.tests)
    for number, test in enumerate(spec.tests):
        inner = f"{path}.tests[{number}]"
        if not test.name.strip() or len(test.name) > _NAME_LENGTH or not test.name.isprintable():
            problem = f"must be one line of up to {_NAME_LENGTH} characters: what the test shows"
            yield Violation(f"{inner}.name", problem, "REQUIRED" if not test.name else "INVALID_NAME")
        elif names[test.name] > 1:
            yield Violation(
                f"{inner}.name", f"{test.name} is the name of {names[test.name]} tests", "DUPLICATE"
            )
        yield from _of_test(inner, test, [stream.table for stream in spec.streams], columns)


def _of_test(
    path: str, test: spec_pb2.QueryTest, tables: Sequence[str], columns: Sequence[Column] | None
) -> Iterator[Violation]:
    called = f"of test {test.name}" if test.name else "of this test"
    if test.HasField("now") and not is_instant(test.now):
        yield Violation(f"{path}.now", f"{called} must be an instant from 1970 on", "OUT_OF_RANGE")
    count = sum(len(given.records) for given in test.given)
    if count > limits.TEST_RECORDS:
        problem = f"{called} are {count:,} records; a test may have {limits.TEST_RECORDS:,}"
        yield Violation(f"{path}.given", problem, "TOO_MANY")
    times = Counter(given.table for given in test.given)
    for number, given in enumerate(test.given):
        inner = f"{path}.given[{number}]"
        if given.table not in tables:
            near = nearest(given.table, tables)
            problem = f"{called} is no table of the query" + hint(near, f": there is {', '.join(tables)}")
            yield Violation(
                f"{inner}.table",
                f"{given.table or 'what has no name'} {problem}",
                "UNKNOWN_TABLE",
                suggestion=near,
            )
        elif times[given.table] > 1:
            yield Violation(f"{inner}.table", f"{given.table} {called} stands there twice", "DUPLICATE")
        for index, text in enumerate(given.records):
            if read_object(text) is None:
                problem = f"{called}, {given.table}, record {index + 1}: must be a JSON object"
                yield Violation(f"{inner}.records[{index}]", problem, "MALFORMED")
    yield from _check_expected(f"{path}.expect", called, test.expect, columns)


def _check_expected(
    path: str, called: str, expect: spec_pb2.ExpectedOutput, columns: Sequence[Column] | None
) -> Iterator[Violation]:
    if len(expect.rows) > limits.TEST_ROWS:
        problem = f"{called} are {len(expect.rows):,} rows; a test may expect {limits.TEST_ROWS:,}"
        yield Violation(f"{path}.rows", problem, "TOO_MANY")
    output = None if columns is None else [column.name for column in columns]
    for index, text in enumerate(expect.rows):
        inner, row = f"{path}.rows[{index}]", read_object(text)
        if row is None:
            problem = f"{called}, expected row {index + 1}: must be a JSON object of columns"
            yield Violation(inner, problem, "MALFORMED")
        elif not row:
            problem = f"{called}, expected row {index + 1}: must have a column that is compared"
            yield Violation(inner, problem, "REQUIRED")
        for name in row or ():
            if output is not None and name not in output:
                near = nearest(name, output)
                there = hint(near, f": there are {', '.join(output)}")
                problem = f"{called}, expected row {index + 1}: the query has no column {name[:100]}{there}"
                yield Violation(inner, problem, "UNKNOWN_COLUMN", suggestion=near)
    for reason, count in sorted(expect.quarantined.items()):
        if reason not in REASONS:
            near = nearest(reason, REASONS)
            problem = f"{called}: no record of a test is quarantined for {reason[:100]}" + hint(
                near, f": it may be for {', '.join(REASONS)}"
            )
            yield Violation(f"{path}.quarantined", problem, "UNKNOWN_REASON", suggestion=near)
        elif not 1 <= count <= limits.TEST_RECORDS:
            problem = f"{called}, {reason}: must be from 1 to {limits.TEST_RECORDS:,}"
            yield Violation(f"{path}.quarantined", problem, "OUT_OF_RANGE")
    if not 0 <= expect.late <= limits.TEST_ROWS:
        problem = f"{called} must be from 0 to {limits.TEST_ROWS:,}"
        yield Violation(f"{path}.late", problem, "OUT_OF_RANGE")


def read_object(text: str) -> Mapping[str, Any] | None:
    """Read a JSON object, with every digit; None where the text is none."""
    try:
        value = loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
