"""Somebody new with three sinks, a table, files and a server; what it refuses is replayed or discarded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
import yaml
from conftest import Stack
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Received, Reply
from tests.integration.bookings import Bookings, booking, recount, spread
from tests.integration.cli import DEADLINE_S, Cli
from tests.integration.sink_tests import steps
from tests.integration.slice_parquet import rows_of
from tests.walks.conftest import Say

import daggerspec.sinks

pytestmark = [pytest.mark.integration, pytest.mark.long]
SQL = """\
SELECT city_id AS zone, COUNT(1) AS trips, TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city_id"""
Counts = Counter[tuple[str, str]]


class Crm:
    """Takes rows, unless it is told to refuse them."""

    def __init__(self) -> None:
        self.is_refusing = False
        self._rows: dict[tuple[str, str], int] = {}

    def answer(self, got: Received) -> Reply:
        """What a request is answered."""
        if self.is_refusing:
            return Reply(422)
        self._rows.update({(row["window_timestamp"], str(row["zone"])): row["trips"] for row in got.json})
        return Reply()

    def counts(self) -> Counts:
        """Trips by window and zone."""
        return Counter(dict(self._rows))


def until(holds: Callable[[], object], told: Callable[[], object]) -> None:
    """Wait until a stream has come so far."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, told()
        time.sleep(0.5)  # polling what a stream will write; bounded by the deadline


def in_table(server: str, table: str) -> Counts:
    """Trips by window and zone, of a table whose columns have the names of the query."""
    with psycopg.connect(f"{server}/postgres") as connection:
        rows = connection.execute(f'SELECT window_timestamp, zone, trips FROM public."{table}"').fetchall()
    return Counter({(f"{end:%Y-%m-%dT%H:%M:%SZ}", str(zone)): trips for end, zone, trips in rows})


def in_files(table: Path) -> Counts:
    """The same of files, each row as often as it is there."""
    rows: Counts = Counter()
    for row in rows_of(table):
        rows[f"{row['window_timestamp']:%Y-%m-%dT%H:%M:%SZ}", str(row["zone"])] += row["trips"]
    return rows


def unique_columns(server: str, table: str) -> list[str]:
    """The columns of the unique index of a table."""
    query = (
        "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)"
        " WHERE indrelid = to_regclass(%s) AND indisunique ORDER BY attname"
    )
    with psycopg.connect(f"{server}/postgres") as connection:
        return [name for (name,) in connection.execute(query, (f'public."{table}"',))]


def test_three_sinks_of_a_file_get_the_same_rows_and_what_one_refuses_is_replayed_or_discarded(
    stack: Stack, cli: Cli, postgres: str, tmp_path: Path, say: Say
) -> None:
    url, word = urlsplit(postgres), uuid4().hex[:8]
    secret, folder = stack.state_dir / "secrets" / f"db-{word}", stack.state_dir / "files" / word
    secret.write_text(f"{url.password}\n")
    registration = tmp_path / "secret.yaml"
    said = {"kind": "secret", "name": f"db-{word}", "team": "walkers", "place": {"file": str(secret)},
            "addresses": [f"{url.hostname}:{url.port}"]}  # fmt: skip
    registration.write_text(yaml.safe_dump(said))
    address = {"host": url.hostname, "port": url.port, "database": "postgres", "user": url.username,
               "password": f"db-{word}"}  # fmt: skip
    table: dict[str, Any] = {"address": address, "schema": "public", "table": f"trips_{word}",
                             "mode": "upsert", "key": ["window_timestamp", "zone"],
                             "create_table": True}  # fmt: skip
    by_default = {name: value for name, value in table.items() if name != "key"} | {
        "table": f"more_{word}",
        "address": address | {"password": {"file": str(secret)}},
    }
    crm, events = Crm(), spread(range(600), cities=3)
    with httpserver.serving() as server:
        server.answer, stream = crm.answer, Bookings(stack.kafka, cli)
        sinks = [
            {"name": "db", "postgres": table},
            {"name": "files", "parquet": {"location": str(folder), "table": "trips"}},
            {"name": "crm", "http": {"url": f"{server.url}/trips", "rows_per_request": 100}},
            {"name": "more", "postgres": by_default},
        ]
        name, file = stream.dagger(tmp_path, sql=SQL, sinks=sinks, idle_timeout="0s", team="walkers")
        kinds = [kind["kind"] for kind in cli("sink", "kinds")]
        unknown = cli.try_("validate", file)
        cli("secret", "apply", registration)
        tried = cli.try_("sink", "test", "-f", file)
        cli("apply", "-f", file, "--wait")

        stream.write(booking(second, city_id=city) for second, city in events[:250])
        until(lambda: crm.counts().total() >= 240, crm.counts)
        crm.is_refusing = True
        stream.write(booking(second, city_id=city) for second, city in events[250:370])
        until(lambda: len(cli("quarantine", "list", name)) >= 6, lambda: cli("get", name))
        [group] = cli("quarantine", "summary", name)
        shown = cli("quarantine", "show", name, cli("quarantine", "list", name)[0]["id"])
        forecast = cli("quarantine", "replay", name, "--sink", "crm", "--dry-run")
        crm.is_refusing = False
        cli("quarantine", "replay", name, "--sink", "crm", "--yes", "--wait")
        replayed = crm.counts()
        crm.is_refusing = True
        stream.write(booking(second, city_id=city) for second, city in events[370:490])
        until(lambda: len(cli("quarantine", "list", name)) >= 6, lambda: cli("get", name))
        cli("quarantine", "discard", name, "--sink", "crm", "--why", "a test", "--yes")
        left = cli("quarantine", "list", name)
        crm.is_refusing = False
        stream.write([*(booking(second, city_id=city) for second, city in events[490:]), booking(900)])
        wanted = recount(events)
        until(lambda: in_files(folder / "trips") == wanted, lambda: in_files(folder / "trips"))
        until(
            lambda: in_table(postgres, f"more_{word}") == wanted, lambda: in_table(postgres, f"more_{word}")
        )
        cli("delete", name, "--wait")
        cli("secret", "delete", f"db-{word}", "--yes")
    say(f"sinks: {len(wanted)} rows in a table, in files and in one by its default key; 6 replayed, 6 hidden")

    assert set(kinds) == set(daggerspec.sinks.names())
    assert (unknown.code, [each["code"] for each in unknown.json["findings"]]) == (1, ["UNKNOWN_SECRET"])
    assert tried.code == 0, tried
    assert {step[0] for step in steps(tried)} == {"db", "files", "crm", "more"}
    assert (group["stage"], group["reason"], group["sink"], group["records"]) == (
        "sink",
        "SINK_REFUSED",
        "crm",
        6,
    )
    assert set(shown["decoded"]) == {"zone", "trips", "window_timestamp"}
    assert sum(each["records"] for each in forecast["forecast"]) == 6
    assert left == []
    assert in_table(postgres, f"trips_{word}") == in_table(postgres, f"more_{word}") == wanted
    assert unique_columns(postgres, f"trips_{word}") == ["window_timestamp", "zone"]
    assert set(unique_columns(postgres, f"more_{word}")) == {"window_timestamp", "zone"}
    ends = sorted({end for end, _ in wanted})
    assert replayed == Counter({key: n for key, n in wanted.items() if key[0] in ends[:6]})
    assert crm.counts() == Counter({key: n for key, n in wanted.items() if key[0] not in ends[6:8]})
