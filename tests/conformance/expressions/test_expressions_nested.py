"""No expression that the check takes ends a worker, however functions are nested and whatever they are over;
and what compiled code gives, Spark gives that interprets each expression node by node.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from tests.conformance.engine import Engine, engine
from tests.conformance.expressions.answers import checked_query, record, view_of
from tests.conformance.expressions.nested import RECORDS, expressions

FRESH_S: Final = 300.0
_AT_ONCE: Final = 60
_FAILED: Final = (PySparkException, Py4JError, pa.ArrowException)
_INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="module")
def spark() -> Iterator[Engine]:
    with engine() as started:
        yield started


def computed(spark: Engine, some: Sequence[str]) -> list[str]:
    """The rows of a query of these expressions, as text; times may lie beyond what Python has."""
    plan = checked_query(some).plan
    assert plan is not None
    made = [record(fields, number) for number, fields in enumerate(RECORDS)]
    found = spark.answer(plan, {"records": view_of(plan.reads[0].paths, made)})
    ordered = found.sort_by("id")
    return [str(ordered.column(f"c{number}").combine_chunks()) for number in range(len(some))]


def failing(spark: Engine, some: Sequence[str]) -> str:
    """The first of them that Spark cannot compute, and why."""
    for each in some:
        try:
            computed(spark, [each])
        except _FAILED as problem:
            return f"{each}: {problem}"
    return f"together: {some}"


def difference(spark: Engine, seed: int) -> str:
    """What is wrong with a seed's expressions; "" for nothing."""
    some = [*expressions(seed, _AT_ONCE)]
    session = spark._session
    try:
        compiled = computed(spark, some)
    except _FAILED:
        return f"seed {seed}: {failing(spark, some)}"
    for name, value in _INTERPRETED.items():
        session.conf.set(name, value)
    try:
        interpreted = computed(spark, some)
    except _FAILED:
        return f"seed {seed}, interpreted: {failing(spark, some)}"
    finally:
        for name in _INTERPRETED:
            session.conf.unset(name)
    for each, one, other in zip(some, compiled, interpreted, strict=True):
        if one != other:
            return f"seed {seed}: {each}\ncompiled {one}\ninterpreted {other}"
    return ""


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.timeout(FRESH_S + 300)
def test_no_nested_functions_end_a_worker(spark: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    until, looked_at, found = time.monotonic() + FRESH_S, 0, ""
    while time.monotonic() < until and not found:
        found = difference(spark, secrets.randbits(48))
        looked_at += 1
    with capsys.disabled():
        sys.stdout.write(f"\n{looked_at * _AT_ONCE} nested expressions over {len(RECORDS)} records\n")

    assert found == ""
