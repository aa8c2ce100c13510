"""What `daggers sink test` finds, by a host's process: against real servers, and where something is wrong."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Reply
from services.runtime.tests.launches import Dagger, whole
from services.runtime.tests.sink_cases import http, parquet
from services.runtime.tests.sink_cases import postgres as tables
from services.runtime.tests.testsinks import NOW, Steps, shown, tried

from runtime import testsinks


def test_a_server_that_takes_rows_alone_is_reached_and_gets_none() -> None:
    with httpserver.serving() as server:
        server.questions = Reply(405)
        steps = tried(http.sink(server.url))

    assert steps == [("http", "address", ""), ("http", "connect", ""), ("http", "ask", "")]
    assert not server.received


def test_who_does_not_know_us_and_who_is_not_there_are_told_apart_and_each_sink_is_tried(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "token"
    missing = http.sink("http://127.0.0.1:1")
    missing.sink.http.auth.bearer.file = str(secret)
    silent = http.sink("http://127.0.0.1:1")
    with httpserver.serving() as server:
        server.questions = Reply(401)
        denied = http.sink(server.url)
        for number, each in enumerate((denied, missing, silent)):
            each.sink.name = f"s{number}"
        steps = tried(denied, missing, silent)

    assert steps == [
        ("s0", "address", ""),
        ("s0", "connect", ""),
        ("s0", "ask", "SINK_DENIED"),
        ("s1", "secrets", "SECRET_MISSING"),
        ("s2", "address", ""),
        ("s2", "connect", "SINK_UNAVAILABLE"),
    ]


def test_an_address_that_leads_inward_is_refused_before_anybody_connects() -> None:
    with httpserver.serving() as server:
        inward = http.sink(server.url)
        inward.egress.enforce = True
        steps = tried(inward)

        assert steps == [("http", "address", "SINK_ADDRESS_REFUSED")]
        assert not server.received


@pytest.mark.integration
def test_a_password_is_tried_and_no_table_is_made(postgres: str, tmp_path: Path) -> None:
    right, database = tables.sink(postgres, tmp_path)
    wrong = spec_pb2.ResolvedSink()
    wrong.CopyFrom(right)
    (tmp_path / "wrong").write_text("wrong\n")
    wrong.sink.postgres.address.password.file = str(tmp_path / "wrong")
    right.sink.name, wrong.sink.name = "right", "wrong"
    steps = tried(right, wrong)
    with psycopg.connect(database) as connection:
        made = connection.execute("SELECT to_regclass('counts')").fetchone()

    assert [step for step in steps if step[1] == "ask"] == [
        ("right", "ask", ""),
        ("wrong", "ask", "SINK_DENIED"),
    ]
    assert made == (None,)


class Unread(Dagger):
    """One whose topic nobody makes."""

    def __post_init__(self) -> None:
        self.name, self.topic, self.generation, self.checkpoints = "d-row", "t", 100, self.folder


def written(folder: Path, *sinks: spec_pb2.ResolvedSink) -> Steps:
    """What becomes of the rows that are made up, of the sinks of a dagger that counts bookings."""
    job = whole(Unread(folder, "127.0.0.1:1", sinks=[*sinks]).spec(folder / "run"))
    return shown([step for step in testsinks.try_sinks(job, send_one=True, now=NOW) if step.what == "row"])


def test_a_row_that_is_made_up_reaches_each_sink_and_no_dagger_takes_it_for_its_own(tmp_path: Path) -> None:
    files = parquet.sink(tmp_path)
    with httpserver.serving() as server:
        steps = written(tmp_path, files, http.sink(server.url))

    assert steps == [("parquet", "row", ""), ("http", "row", "")]
    [row] = parquet.seen(files)
    assert (row["window_timestamp"], row["num_of_bookings"]) == (NOW, 0)
    assert [request.json["num_of_bookings"] for request in server.received] == [0]
    commits = Path(files.sink.parquet.location) / "counts" / "_daggers" / "commits"
    assert [path.name for path in commits.iterdir()] == ["d-row~test"]


@pytest.mark.integration
def test_a_row_that_is_made_up_is_added_to_a_table(postgres: str, tmp_path: Path) -> None:
    table, database = tables.sink(postgres, tmp_path)
    table.sink.postgres.mode = spec_pb2.PostgresSink.MODE_APPEND
    del table.sink.postgres.key[:]
    steps = written(tmp_path, table)
    with psycopg.connect(database) as connection:
        counted = connection.execute("SELECT count(*), max(num_of_bookings) FROM counts").fetchone()

    assert (steps, counted) == ([("postgres", "row", "")], (1, 0))
