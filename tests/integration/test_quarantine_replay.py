"""What a table refuses is replayed into it by command, on the whole stack, once the table is mended."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest
from services.runtime.tests.sink_cases.postgres import sink
from tests.integration.bookings import Bookings, booking
from tests.integration.cli import DEADLINE_S, Cli

pytestmark = pytest.mark.integration
REFUSED, TAKEN = -7, 7


def test_a_row_that_a_table_refused_is_there_once_it_is_replayed(
    kafka: str, cli: Cli, postgres: str, tmp_path: Path
) -> None:
    stream = Bookings(kafka, cli)
    resolved, url = sink(postgres, tmp_path)
    address = resolved.sink.postgres.address
    db = {"address": {"host": address.host, "port": address.port, "database": address.database,
                      "user": address.user, "password": {"file": address.password.file}},
          "schema": resolved.sink.postgres.schema, "table": "counts", "create_table": False}  # fmt: skip
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE counts (tag_city_id int CONSTRAINT positive CHECK (tag_city_id > 0),"
            " num_of_bookings bigint, window_timestamp timestamptz)"
        )
        connection.execute("CREATE UNIQUE INDEX ON counts (window_timestamp, tag_city_id) NULLS NOT DISTINCT")
        name, path = stream.dagger(tmp_path, sinks=[{"name": "db", "postgres": db}])
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
