"""The driver's own check: queries of ours pass, nothing else does, and looking at it touches nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from services.runtime.tests.sessions import spark_session
from tests.conformance.corpus import public, tables

import daggersql
from daggersql.emit.rowconditions import with_conditions
from runtime import errors
from runtime.errors import JobError
from runtime.launch import guard

pytestmark = pytest.mark.integration
ESCAPES = [case for case in public().cases("sql_reject") if case["class"] == "escape"]
FURTHER = [
    "SELECT transform(order_number) USING 'touch {folder}/command' AS x FROM bookings",
    "SELECT * FROM text.`{folder}/canary`",
    "SELECT order_number FROM bookings WHERE fare > (SELECT max(value) FROM text.`{folder}/canary`)",
    "WITH t AS (SELECT * FROM bookings) SELECT * FROM t",
    "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'CANARY') FROM bookings",
    "SELECT try_reflect('java.lang.System', 'getenv', 'CANARY') FROM bookings",
    "SELECT concat('a', java_method('java.lang.System', 'getenv', 'CANARY')) FROM bookings",
    "SELECT CASE WHEN fare > 1 THEN input_file_name() END FROM bookings",
    "SELECT transform(array(1), x -> raise_error('[other]')) FROM bookings",
    "SELECT s2id(1D, 2D, 3) FROM bookings",
    "SELECT * FROM range(1000000000)",
    "SELECT * FROM read_files('{folder}/canary')",
    "SELECT explode(sequence(1, 1000000000)) FROM bookings",
    "SELECT * FROM bookings LATERAL VIEW stack(2, 1, 2) t AS a",
    "SELECT fare, row_number() OVER (ORDER BY fare) FROM bookings",
    "SELECT * FROM bookings TABLESAMPLE (1 PERCENT)",
    "SELECT * FROM bookings ORDER BY fare",
    "SELECT DISTINCT fare FROM bookings",
    "SELECT * FROM bookings CROSS JOIN bookings b",
    "SELECT 1 UNION SELECT 2",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "CREATE OR REPLACE TEMPORARY FUNCTION concat AS 'java.lang.System' USING JAR '{folder}/canary'",
    "CACHE TABLE bookings",
    "BEGIN SELECT 1; END",
    "FROM bookings |> WHERE fare > 1",
    "nothing of the kind",
]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session() as started:
        yield started


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a file that nobody may read; it and the environment are the same afterwards."""
    for name in ("CANARY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a-secret-canary")
    canary = tmp_path / "canary"
    canary.write_text("a-secret-canary\n")
    os.utime(canary, (1, 1))
    here = sorted(Path.cwd().iterdir())
    yield tmp_path
    assert [entry.name for entry in tmp_path.iterdir()] == ["canary"]
    assert (canary.stat().st_atime, canary.stat().st_mtime) == (1, 1)
    assert sorted(Path.cwd().iterdir()) == here


@pytest.mark.parametrize("case", ESCAPES, ids=lambda case: case["id"])
def test_every_escape_of_the_corpus_is_refused_by_the_driver_too(
    session: SparkSession, canaries: Path, case: dict[str, Any]
) -> None:
    with pytest.raises(JobError) as refused:
        guard.check(session, aimed(case["sql"], canaries), ["bookings"], [])

    error = refused.value.error
    assert (error.domain, "a-secret" in error.detail) == (errors.USER, False)


@pytest.mark.parametrize("sql", FURTHER)
def test_what_spark_understands_and_we_never_say_is_refused(
    session: SparkSession, canaries: Path, sql: str
) -> None:
    with pytest.raises(JobError) as refused:
        guard.check(session, sql.format(folder=canaries), ["bookings"], [])

    assert refused.value.error.reason in ("FORBIDDEN_QUERY", "SYNTAX_ERROR")


def test_every_accepted_query_of_the_corpus_passes(session: SparkSession) -> None:
    refused, checked = {}, 0
    for case in public().cases("sql_accept"):
        plan = daggersql.check(case["sql"], public().tables_of(case), conditions=["TRUE"]).plan
        if plan is None:
            continue
        checked += 1
        sql = with_conditions(plan, plan.spark_sql)
        try:
            guard.check(session, sql, [read.table for read in plan.reads], plan.functions)
        except JobError as problem:
            refused[case["id"]] = problem.error.detail

    assert refused == {}
    assert checked > 0


def test_the_list_of_a_partial_session_is_unfolded(session: SparkSession) -> None:
    sql = """SELECT e, COUNT(*) AS k FROM (SELECT CollectArray(event_name) AS events,
        SESSION_ROWTIME(rowtime, INTERVAL '1' MINUTE) AS rt FROM customer_events
        GROUP BY SESSION(rowtime, INTERVAL '1' MINUTE)) AS s, UNNEST(events) AS t(e)
        GROUP BY TUMBLE(rt, INTERVAL '1' MINUTE), e"""
    plan = daggersql.check(sql, tables()).plan

    assert plan is not None
    guard.check(session, plan.spark_sql, ["customer_events"], plan.functions)


def test_a_query_reads_the_streams_of_its_dagger_and_calls_the_functions_of_its_plan(
    session: SparkSession,
) -> None:
    sql = "SELECT s2id(lat, lng, 13) AS c FROM bookings"
    guard.check(session, sql, ["bookings"], ["s2id"])

    with pytest.raises(JobError, match="the table bookings"):
        guard.check(session, sql, ["payments"], ["s2id"])
    with pytest.raises(JobError, match="the function s2id"):
        guard.check(session, sql, ["bookings"], ["distance"])


def aimed(sql: str, folder: Path) -> str:
    """The escape with our canary in the place of what it reads."""
    for path in ("/etc/passwd", "/etc/shadow", "/etc/hosts", "/proc/self/environ", "/tmp/x.avro"):
        sql = sql.replace(path, str(folder / "canary"))
    return sql
