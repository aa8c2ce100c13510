"""How old what is open in a checkpoint is: of every query that keeps sessions, wherever its state is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from services.runtime.tests.lease_hadoop import link
from services.runtime.tests.sessions import START, drain, feed, moment, planned, spark_session, stream
from services.runtime.tests.whole_rows import LONG, QUICK

from runtime.spark.session import keep_state_on_disk
from runtime.state import openstate
from runtime.state.store import Place
from runtime.state.store.hadoop import hadoop_path

pytestmark = pytest.mark.integration

QUERIES = QUICK | LONG


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session() as started:
        yield started


def keeping(session: SparkSession, *, on_disk: bool) -> SparkSession:
    """A session that keeps state there."""
    other = session.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "1")
    if on_disk:
        keep_state_on_disk(other)
    return other


def ran(session: SparkSession, folder: Path, sql: str) -> Path:
    """The checkpoint of a query that is stopped amid records: customer a came at 1 and 5, and b at 15.

    A session of theirs ends after 6 s, and what is made of it depends on records from 6 s before it on.
    """
    visits = [("a", 1), ("a", 5), ("b", 15)]
    orders = [("a", 12), ("c", 15)]
    for name, key, events in (
        ("customer_events", "customer_id", visits),
        ("bookings", "order_number", orders),
        ("payments", "order_id", orders),
    ):
        feed(folder, name, "first", [{key: who, "rowtime": moment(second)} for who, second in events])
    drain(stream(session, planned(sql), folder), folder)
    return folder / "checkpoint"


@pytest.mark.parametrize(
    ("query", "oldest", "on_disk"),
    [
        ("tumble over session", -5, False),
        ("records with sessions", -5, True),
        *(
            pytest.param(query, oldest, on_disk, marks=pytest.mark.long)
            for query, oldest, on_disk in (
                ("tumble over session", -5, True),
                ("records with sessions", -5, False),
                ("hop over tumble over session", -5, True),
                ("session", 15, False),
                ("session", 15, True),
                ("join", None, True),
                ("tumble", None, True),
            )
        ),
    ],
)
def test_the_oldest_session_that_something_open_is_made_of_is_known(
    session: SparkSession, tmp_path: Path, query: str, oldest: int | None, on_disk: bool
) -> None:
    kept = keeping(session, on_disk=on_disk)
    checkpoint = ran(kept, tmp_path, QUERIES[query])
    expected = None if oldest is None else START + timedelta(seconds=oldest)

    # Whoever asks runs the next query, whose state may be kept elsewhere.
    others = [keeping(session, on_disk=where) for where in (False, True)]
    assert [openstate.oldest(each, checkpoint) for each in others] == [expected] * 2


@pytest.mark.parametrize(
    ("scheme", "on_disk"),
    [
        ("viewfs", True),
        *(
            pytest.param(scheme, on_disk, marks=pytest.mark.long)
            for scheme, on_disk in (("viewfs", False), ("file", False), ("file", True))
        ),
    ],
)
def test_the_oldest_session_is_known_on_a_hadoop_file_system(
    session: SparkSession, tmp_path: Path, scheme: str, on_disk: bool
) -> None:
    kept = keeping(session, on_disk=on_disk)
    ran(kept, tmp_path, QUERIES["tumble over session"])
    place: Place = hadoop_path(f"file://{tmp_path}/checkpoint")
    if scheme == "viewfs":
        table = uuid4().hex  # Hadoop remembers file systems by name
        session.sparkContext._jsc.hadoopConfiguration().set(link(table), f"file://{tmp_path}")
        place = hadoop_path(f"viewfs://{table}/data/checkpoint", {link(table): f"file://{tmp_path}"})

    assert openstate.oldest(session, place) == START - timedelta(seconds=5)
