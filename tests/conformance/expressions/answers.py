"""Expressions through the real compile path: checked, put into few queries, computed by Spark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from tests.conformance import records
from tests.conformance.corpus import compiled
from tests.conformance.engine import Engine
from tests.conformance.expressions.cases import Case

from daggersql import CheckResult, Severity, Table, check

_HERE = Path(__file__).parent
_AT_ONCE = 100
"""Expressions of one query: each query is a job of Spark, and its columns are compiled together."""


@cache
def table() -> Table:
    """The stream of the records that expressions are over."""
    pool = DescriptorPool()
    for file in compiled(_HERE / "record.proto", include=_HERE).file:
        pool.AddSerializedFile(file.SerializeToString())
    return Table("records", pool.FindMessageTypeByName("expressions.v1.Record"), "at")


def record(fields: Mapping[str, Any], number: int) -> Message:
    """The record of a case; its id is the number of the case."""
    given = {"at": "2024-05-06T07:08:09Z", "id": str(number), **fields}
    return ParseDict(given, GetMessageClass(table().message)())


def refused(sql: str) -> str | None:
    """What the check says of an expression; None where it takes it."""
    checked = checked_query([sql])
    first = next((each for each in checked.findings if each.severity is Severity.ERROR), None)
    return None if first is None else f"{first.code}: {first.message}"


def checked_query(expressions: Sequence[str], where: str = "") -> CheckResult:
    """The query of these expressions, as columns c0, c1 …, behind the record's id."""
    columns = ", ".join(f"{sql} AS c{number}" for number, sql in enumerate(expressions))
    return check(f"SELECT id, {columns} FROM records{where}", [table()])


def answers(engine: Engine, cases: Sequence[Case]) -> Iterator[Any]:
    """What each case's expression gives over its record, in the order of the cases."""
    made = [record(case.fields, number) for number, case in enumerate(cases)]
    for first in range(0, len(cases), _AT_ONCE):
        numbered = list(enumerate(cases))[first : first + _AT_ONCE]
        plan = checked_query([case.sql for _, case in numbered]).plan
        assert plan is not None, [case.sql for _, case in numbered if refused(case.sql)]
        view = view_of(plan.reads[0].paths, [made[number] for number, _ in numbered])
        found = engine.answer(plan, {"records": view})
        places = {number: place for place, number in enumerate(found.column("id").to_pylist())}
        for column, (number, _) in enumerate(numbered):
            yield found.column(f"c{column}")[places[str(number)]].as_py()


def view_of(paths: Sequence[str], made: Sequence[Message]) -> pa.Table:
    """Records as the runtime's view of the stream has them."""
    return records.decoded(table(), paths, made, "records", 0)


def same(found: Any, right: Any) -> bool:
    """Whether an answer is right: NaN is NaN, and floats may differ in their last digit."""
    if isinstance(right, float) and isinstance(found, float):
        return (math.isnan(right) and math.isnan(found)) or math.isclose(found, right, rel_tol=1e-12)
    return type(found) is type(right) and bool(found == right)
