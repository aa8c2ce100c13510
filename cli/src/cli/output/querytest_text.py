"""Show the results of a query's tests, in words and as documents."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from daggers.v1 import gateway_pb2

from cli.output.visible import printable
from daggerspec.exactjson import loads

Difference = gateway_pb2.TestDifference
Result = gateway_pb2.TestResult
KINDS: Final = {
    Difference.KIND_ROW_DIFFERS: "row_differs",
    Difference.KIND_ROW_MISSING: "row_missing",
    Difference.KIND_ROW_UNEXPECTED: "row_unexpected",
    Difference.KIND_QUARANTINED: "quarantined",
    Difference.KIND_LATE: "late",
}
_LONGEST: Final = 400
"""Characters of a row in words."""


def progress(message: gateway_pb2.TestProgress) -> str:
    """Describe how far the tests are."""
    return f"test {message.finished + 1} of {message.total}: {printable(message.test)}"


def lines(dagger: str, result: Result) -> Iterator[str]:
    """Yield lines about one test of a dagger: whether it passed, and each difference."""
    verdict = "pass" if result.passed else "FAIL"
    yield f"{verdict}  {dagger}: {printable(result.test)}  ({result.took_ms / 1000:.1f} s)"
    if result.error:
        yield f"      {printable(result.error)}"
    for difference in result.differences:
        yield f"      {printable(difference.sentence)}"
        if difference.kind not in (Difference.KIND_QUARANTINED, Difference.KIND_LATE):
            yield from _rows(difference)
    if (more := result.differences_total - len(result.differences)) > 0:
        yield f"      and {more:,} more differences"


def document(dagger: str, result: Result) -> Mapping[str, Any]:
    """Build the JSON document of one test."""
    return {
        "dagger": dagger,
        "test": result.test,
        "passed": result.passed,
        "error": result.error or None,
        "differences": [_difference(one) for one in result.differences],
        "differences_total": result.differences_total,
        "rows": result.rows,
        "took_ms": result.took_ms,
        "actual": [_read(row) for row in result.actual],
    }


def _rows(difference: Difference) -> Iterator[str]:
    for sign, row in (("-", difference.expected), ("+", difference.actual)):
        if row:
            text = row if len(row) <= _LONGEST else f"{row[:_LONGEST]}…"
            yield f"        {sign} {printable(text)}"


def _read(text: str) -> Any:
    """Read a JSON text; None where there is none, the text itself where it is something else."""
    try:
        return loads(text) if text else None
    except ValueError:
        return text


def _difference(message: Difference) -> Mapping[str, Any]:
    return {
        "kind": KINDS.get(message.kind, "unknown"),
        "sentence": message.sentence,
        "expected": _read(message.expected),
        "actual": _read(message.actual),
        "columns": list(message.columns),
    }
