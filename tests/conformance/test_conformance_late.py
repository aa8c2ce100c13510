"""Records that come too late, into every windowed query of the corpus, through the readers that a driver has:
each is in the windows that are still open, and for each other one it is said that it is missing from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.message import Message
from pyspark.sql import SparkSession
from services.runtime.tests.streams import source_session
from tests.conformance import records
from tests.conformance.conformance_previews import job, written
from tests.conformance.corpus import public, tables
from tests.conformance.engine import Engine
from tests.conformance.late import DELAY, START, LateRun, counted, in_time, recounted
from tests.conformance.queries import words
from tests.conformance.recounts import ALL
from tests.conformance.recounts.own import Query

from daggersql import Plan, Table, check
from runtime.spark import queries
from runtime.spark.session import another

pytestmark = pytest.mark.integration
COUNT, LATE = 150, 60
LONGEST = timedelta(days=1)


def _queries() -> Mapping[str, Query]:
    """Those of the corpus and of its recounts in which something closes."""
    accepted = {
        case["id"]: Query(case["sql"], tuple(case["streams"]), lambda *_: [])
        for case in public().cases("sql_accept")
        if all(each["message"].startswith("corpus.v1.") for each in case["streams"].values())
    }
    return {
        name: query for name, query in {**accepted, **ALL}.items() if any(planned(query).closing.values())
    }


def planned(query: Query) -> Plan:
    checked = check(query.sql, tables(*query.streams))
    assert checked.plan is not None, checked.findings
    return checked.plan


def form(name: str) -> tuple[object, ...]:
    """What matters to how late rows are counted: two of one form are counted alike."""
    plan = planned(QUERIES[name])
    windows = sorted({window.kind for all_ in plan.closing.values() for window in all_})
    return (tuple(windows), plan.staged is not None, plan.partial_aggregation is not None)


QUERIES = _queries()
SAMPLE = {form(name): name for name in sorted(QUERIES, reverse=True)}.values()


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with source_session() as started:
        yield started


def made(query: Query, plan: Plan) -> tuple[dict[str, list[Message]], ...]:
    """Records in order over some windows, then those that come late, then two that close all windows."""
    sizes = [window.size for all_ in plan.closing.values() for window in all_]
    span = max(timedelta(minutes=4), 3 * max(sizes))
    parts: tuple[dict[str, list[Message]], ...] = ({}, {}, {})
    for seed, table in enumerate(tables(*query.streams)):
        vocabulary = words(query.sql)
        for part, (count, begin, length) in enumerate(
            [
                (COUNT, START, span),
                (LATE, START - span / 10, span),
                (2, START + span + timedelta(days=70), timedelta(seconds=4)),
            ]
        ):
            of = records.made(table, count, begin, length, seed + 10 * part, vocabulary)
            parts[part][table.name] = list(of)
    return parts


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SAMPLE else pytest.mark.long) for name in sorted(QUERIES)]
)
def test_a_late_record_is_in_the_open_windows_and_is_told_of_for_each_closed_one(
    name: str, session: SparkSession, kafka: str, tmp_path: Path
) -> None:
    query = QUERIES[name]
    plan = planned(query)
    first, late, last = made(query, plan)
    read = {each.table for each in plan.reads}
    spec = job(query, written(dict.fromkeys(first, ()), kafka), kafka, tmp_path)
    spec.platform.bootstrap_servers = kafka
    for stream in spec.streams:
        stream.input.idle_timeout.FromSeconds(0)
    by_name = {table.name: table for table in tables(*query.streams)}
    run = LateRun(another(session), spec, plan, kafka)
    try:
        run.send(first)
        closed = min(_newest(by_name[table], first[table]) for table in read) - DELAY
        run.until(lambda run: run.closed is not None and run.closed >= closed)
        assert run.closed == closed, "what is late is not what was meant"
        before = run.read
        run.send(late)
        run.until(lambda run: run.read >= before + LATE * len(read))
        run.send(last)
        behind = min(_newest(by_name[table], last[table]) for table in read) - DELAY
        run.until(lambda run: run.closed is not None and run.closed >= behind)
        told, dropped = run.late, run.dropped_by_joins
    finally:
        queries.stop_patiently(run.query.stop)

    expected = recounted(another(session), plan, by_name, late, closed)
    assert told == expected
    assert any(told.values()), "a test without late rows shows nothing"
    kinds = {window.kind for all_ in plan.closing.values() for window in all_}
    if kinds == {"JOIN"}:
        assert sum(each.rows for each in told.values()) == dropped
    if plan.window is not None and plan.window.kind in ("TUMBLE", "HOP") and len(kinds) == 1:
        names = [column.name for column in plan.columns]
        engine = Engine(another(session), public().files)
        some, all_ = (_answer(engine, plan, by_name, *parts) for parts in ((first,), (first, late)))
        whole = [*in_time(some, closed, before=True), *in_time(all_, closed, before=False)]
        found, expected_rows = counted(run.rows, names), counted(whole, names)
        missing, more = expected_rows - found, found - expected_rows
        assert (missing, more) == (Counter(), Counter()), (missing, more)


def _newest(table: Table, some: list[Message]) -> datetime:
    """The greatest event time of some records."""
    rows = records.decoded(table, (), some, table.name, 0)
    return max(rows.column("rowtime").to_pylist())


def _answer(engine: Engine, plan: Plan, by_name: Mapping[str, Table], *parts: Mapping[str, list[Message]]):  # type: ignore[no-untyped-def]
    """What the query gives over records that are all there."""
    views = {
        read.table: records.decoded(
            by_name[read.table],
            read.paths,
            [one for part in parts for one in part[read.table]],
            read.table,
            0,
        )
        for read in plan.reads
    }
    return engine.answer(plan, views)
