"""What a table refuses is replayed into it by command, on the whole stack, once the table is mended."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest
from services.runtime.tests.sink_cases.postgres import sink
from tests.integration.bookings import Bookings, booking, counted, window_end
from tests.integration.cli import DEADLINE_S, Cli
from tests.integration.quarantine_replay import table_sink

pytestmark = pytest.mark.integration
REFUSED, TAKEN = -7, 7


def test_a_row_that_a_table_refused_is_there_once_it_is_replayed(
    kafka: str, cli: Cli, postgres: str, tmp_path: Path
) -> None:
    stream = Bookings(kafka, cli)
    resolved, url = sink(postgres, tmp_path)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE counts (tag_city_id int CONSTRAINT positive CHECK (tag_city_id > 0),"
            " num_of_bookings bigint, window_timestamp timestamptz)"
        )
        connection.execute("CREATE UNIQUE INDEX ON counts (window_timestamp, tag_city_id) NULLS NOT DISTINCT")
        name, path = stream.dagger(tmp_path, sinks=[table_sink(resolved)])
        cli("apply", path, "--wait")
        stream.write([booking(1, city_id=REFUSED), booking(2, city_id=TAKEN), booking(200, city_id=TAKEN)])
        end = time.monotonic() + DEADLINE_S
        while not cli("quarantine", "list", name):
            assert time.monotonic() < end, cli("get", name)
            time.sleep(1)  # polling for what a driver will set aside; bounded by the deadline
        connection.execute("ALTER TABLE counts DROP CONSTRAINT positive")
        cli("quarantine", "replay", name, "--sink", "db", "--yes", "--wait")
        rows = connection.execute("SELECT tag_city_id, num_of_bookings FROM counts WHERE tag_city_id < 0")

        assert rows.fetchall() == [(REFUSED, 1)]
    assert cli("quarantine", "list", name) == []


@pytest.mark.long
def test_a_window_that_lacks_a_record_is_computed_again_once_that_is_mended(
    kafka: str, cli: Cli, tmp_path: Path
) -> None:
    stream = Bookings(kafka, cli)
    name, path = stream.dagger(tmp_path)
    cli("apply", path, "--wait")
    stream.write([booking(1), b"\xff", booking(200)])
    first = cli.rows(name, enough=bool)
    [record] = cli("quarantine", "list", name)
    mended = tmp_path / "mended.bin"
    mended.write_bytes(booking(2))
    chosen = ("quarantine", "replay", name, "--id", record["id"])
    as_it_is = cli(*chosen, "--dry-run")
    edited = cli(*chosen, "--with", mended, "--dry-run")
    late = cli.try_(*chosen, "--with", mended, "--yes", "--wait")
    computed = cli(*chosen, "--with", mended, "--recompute", "--yes", "--wait")

    assert [(each["outcome"], each["reason"]) for each in as_it_is["forecast"]] == [
        ("FAILED_AGAIN", "MALFORMED")
    ]
    assert [(each["outcome"], each["reason"]) for each in edited["forecast"]] == [("LATE", "WINDOWS_CLOSED")]
    assert (late.code, late.json["outcomes"], computed["outcomes"]) == (1, {"LATE": 1}, {"REPLAYED": 1})
    end = window_end(1)
    assert [n for (when, _), n in counted(first).items() if when == end] == [1]
    assert [n for (when, _), n in counted(cli.rows(name, enough=bool)).items() if when == end] == [2]
    assert any("recompute" in line for line in cli("logs", name, "--replay")["lines"])
    assert cli("quarantine", "list", name) == []


@pytest.mark.long
def test_a_batch_that_waits_for_a_flood_goes_on_once_refusals_are_allowed(
    kafka: str, cli: Cli, postgres: str, tmp_path: Path
) -> None:
    stream = Bookings(kafka, cli)
    resolved, url = sink(postgres, tmp_path)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE counts (tag_city_id int CONSTRAINT positive CHECK (tag_city_id > 0),"
            " num_of_bookings bigint, window_timestamp timestamptz)"
        )
        connection.execute("CREATE UNIQUE INDEX ON counts (window_timestamp, tag_city_id) NULLS NOT DISTINCT")
        name, path = stream.dagger(tmp_path, sinks=[table_sink(resolved, max_refused=0.5)])
        cli("apply", path, "--wait")
        stream.write([*(booking(1, city_id=-city) for city in range(1, 131)), booking(2), booking(200)])
        cli.until(name, lambda dagger: "SINK_REFUSES_MOST" in str(dagger["warnings"]))
        waiting = cli("quarantine", "list", name)
        allowed = cli("quarantine", "allow", name, "--for", "10m", "--why", "test")
        end = time.monotonic() + DEADLINE_S
        while [group["records"] for group in cli("quarantine", "summary", name)] != [130]:
            assert time.monotonic() < end, cli("get", name)
            time.sleep(1)  # polling for what a driver will set aside; bounded by the deadline
        cli.until(name, lambda dagger: "SINK_REFUSES_MOST" not in str(dagger["warnings"]))
        rows = connection.execute(
            "SELECT tag_city_id FROM counts WHERE window_timestamp = %s", (window_end(2),)
        )

        assert (waiting, bool(allowed["until"])) == ([], True)
        assert {record["sink"] for record in cli("quarantine", "list", name)} == {"db"}
        assert rows.fetchall() == [(1,)]
