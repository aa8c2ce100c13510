"""Registered secrets and sinks by the command, against a gateway."""

import json
import re
from typing import Any

import pytest
import yaml

from daggerclient import sinkfile
from daggerspec import sinks

SECRET = """\
kind: secret
name: crm-token
team: crm
place: {file: /etc/daggers/crm/token}
addresses: ["http://influx.crm:8086"]
"""
SINK = """\
kind: sink
name: crm
teams: [crm, pricing]
influx: {url: "http://influx.crm:8086", bucket: rows, token: crm-token}
limit: {rows_per_second: 1000}
by_team:
  pricing: {bucket: pricing}
"""


@pytest.fixture
def crm(shell: Any) -> Any:
    """A shell whose gateway knows the sink crm and its secret."""
    assert shell("secret", "apply", shell.file("secret.yaml", SECRET))[0] == 0
    assert shell("sink", "apply", shell.file("sink.yaml", SINK))[0] == 0
    return shell


def test_a_secret_of_a_file_is_registered_shown_and_deleted(shell: Any) -> None:
    file = shell.file("secret.yaml", SECRET)
    applied, again = shell("secret", "apply", file), shell("secret", "apply", "-f", file)
    told = json.loads(shell("secret", "get", "crm-token", "-o", "json")[1])
    listed = shell("secret", "list")[1]
    checked = shell("secret", "delete", "crm-token", "--dry-run")
    gone = shell("secret", "delete", "crm-token", "--yes")

    assert applied[:2] == (0, "secret crm-token is registered (version 1)\n")
    assert again[1] == "secret crm-token is registered (version 2)\n"
    assert told["place"] == {"file": "/etc/daggers/crm/token"}
    assert told["addresses"] == ["http://influx.crm:8086"]
    assert "file:/etc/daggers/crm/token" in listed
    assert (checked[1], gone[1]) == (
        "secret crm-token can be deleted\n",
        "secret crm-token is deleted\n",
    )
    assert shell("secret", "list")[2] == "no secrets yet\n"


def test_a_sink_of_a_file_is_registered_shown_and_deleted(crm: Any) -> None:
    told = json.loads(crm("sink", "get", "crm", "-o", "json")[1])
    listed = crm("sink", "list")[1]
    used = crm("secret", "delete", "crm-token", "--yes")
    gone = crm("sink", "delete", "crm", "--yes")

    assert told["sink"]["influx"]["token"] == "crm-token"
    assert (told["teams"], told["exempt"], told["limit"]["rows_per_second"]) == (
        ["crm", "pricing"],
        True,
        1000,
    )
    assert "influx" in listed
    assert "http://influx.crm:8086" in listed
    assert (used[0], "is used by sink crm" in used[2]) == (1, True)
    assert gone[:2] == (0, "sink crm is deleted\n")
    assert crm("sink", "list")[2] == "no registered sinks yet\n"


def test_a_database_of_tables_is_registered_with_the_defaults_of_its_address(shell: Any) -> None:
    secret = SECRET.replace("http://influx.crm:8086", "warehouse:5432")
    text = (
        "kind: sink\nname: tables\nteams: [crm]\npostgres:\n"
        "  address: {host: warehouse, database: crm, user: writer, password: crm-token}\n"
    )
    shell("secret", "apply", shell.file("secret.yaml", secret))
    code, _, said = shell("sink", "apply", shell.file("tables.yaml", text))
    told = json.loads(shell("sink", "get", "tables", "-o", "json")[1])

    assert (code, said) == (0, "")
    assert told["sink"]["postgres"]["address"]["port"] == 5432
    assert sinkfile.shown_sink(sinkfile.sink(text, "f")) == yaml.safe_load(text)


def test_what_a_gateway_refuses_is_named_as_in_the_file(crm: Any) -> None:
    text = SINK.replace('url: "http://influx.crm:8086"', 'url: "http://mine:8086"')
    code, out, _ = crm("sink", "apply", crm.file("sink.yaml", text), "-o", "json")
    [finding] = json.loads(out)["error"]["findings"]

    assert code == 1
    assert (finding["field"], finding["code"]) == ("influx.token", "SECRET_ADDRESS")


def test_what_a_gateway_refuses_of_a_teams_own_address_is_named_as_in_the_file(crm: Any) -> None:
    text = SINK.replace("{bucket: pricing}", "{bucket: pricing, token: nobodys}")
    code, out, _ = crm("sink", "apply", crm.file("sink.yaml", text), "-o", "json")
    [finding] = json.loads(out)["error"]["findings"]

    assert code == 1
    assert (finding["field"], finding["code"]) == ("by_team.pricing.token", "UNKNOWN_SECRET")


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        ("secret", SECRET.replace("kind: secret", "kind: team"), [("kind", 1)]),
        ("secret", SECRET.replace("{file: /etc/daggers/crm/token}", "hunter2"), [("place", 4)]),
        ("secret", SECRET.replace("team: crm", "teams: crm"), [("teams", 3)]),
        ("sink", SINK.replace("crm-token}", "{env: T}, measurement: m}"), [("influx.measurement", 4)]),
        ("sink", SINK + "kafka: {cluster: local}\n", [("", 1)]),
        ("sink", "kind: sink\nname: crm\n", [("", 1)]),
        ("sink", SINK.replace("1000", "none"), [("limit.rows_per_second", 5)]),
    ],
)
def test_all_that_is_wrong_with_a_file_is_told_with_its_place(
    shell: Any, kind: str, text: str, wrong: list[tuple[str, int]]
) -> None:
    code, out, _ = shell(kind, "apply", shell.file("file.yaml", text), "-o", "json")
    findings = json.loads(out)["error"]["findings"]

    assert code == 1
    assert [(finding["field"], finding["line"]) for finding in findings] == wrong
    assert "hunter2" not in json.dumps(findings)


@pytest.mark.parametrize("kind", ["secret", "sink"])
@pytest.mark.parametrize("text", ["", "a: [", "- 1\n"])
def test_what_is_no_such_file_is_refused_in_one_sentence(shell: Any, kind: str, text: str) -> None:
    code, _, said = shell(kind, "apply", shell.file("it.yaml", text))

    assert code == 1
    assert "it.yaml" in said
    assert "Traceback" not in said


def test_what_is_shown_of_a_file_is_the_file() -> None:
    assert sinkfile.shown_secret(sinkfile.secret(SECRET, "f")) == yaml.safe_load(SECRET)
    assert sinkfile.shown_sink(sinkfile.sink(SINK, "f")) == yaml.safe_load(SINK)


def test_kinds_are_listed_with_what_they_promise_and_need(shell: Any) -> None:
    code, table, _ = shell("sink", "kinds")
    listed = {each["kind"]: each for each in json.loads(shell("sink", "kinds", "-o", "json")[1])}

    assert code == 0
    assert [line.split()[0] for line in table.splitlines()[1:]] == list(sinks.names())
    assert list(listed) == list(sinks.names())
    assert (listed["parquet"]["guarantee"], listed["parquet"]["emit_early"]) == ("exactly once", False)
    assert (listed["postgres"]["max_rows"], listed["postgres"]["emit_early"]) == (5_000, True)


def test_of_what_a_kind_may_leave_out_nothing_is_needed(shell: Any) -> None:
    _, table, _ = shell("sink", "kinds")
    cells = [re.split(r"  +", line) for line in table.splitlines()[1:]]
    needs = {line[0]: line[4] for line in cells}

    assert (needs["http"], needs["log"]) == ("url", "-")
    assert needs["postgres"] == "address.host, address.database, address.user, table"
    assert needs["grpc"] == "target, method, message"


@pytest.mark.parametrize("kind", sinks.names())
def test_of_a_kind_all_keys_of_a_dagger_file_are_told(shell: Any, kind: str) -> None:
    code, table, _ = shell("sink", "kinds", kind)
    told = json.loads(shell("sink", "kinds", kind, "-o", "json")[1])

    assert code == 0
    assert [line.split()[0] for line in table.splitlines()[1:]] == [key["key"] for key in told["keys"]]
    assert {key["key"] for key in told["keys"]} >= {key.name for key in sinks.load(kind).KEYS}


def test_a_kind_that_is_misspelt_is_told_which_is_meant(shell: Any) -> None:
    code, _, said = shell("sink", "kinds", "parkuet")

    assert (code, "did you mean parquet?" in said) == (2, True)


@pytest.fixture
def tables(shell: Any, dagger_file: str) -> Any:
    """A file whose dagger has a table with a key, one that rows are appended to, and another sink."""
    shell.fill()
    address = "address: {host: warehouse, database: crm, user: writer}"
    keyed = f"  - postgres: {{{address}, table: trips, columns: {{orders: n}}}}\n"
    appended = f"  - name: log\n    postgres: {{{address}, schema: audit, table: all, mode: append}}\n"
    return shell.file("tables.yaml", dagger_file + keyed + appended)


def test_the_sql_that_the_sinks_of_a_file_need_is_what_psql_takes(shell: Any, tables: Any) -> None:
    code, script, said = shell("sink", "ddl", "-f", tables)
    lines = script.splitlines()

    assert (code, said) == (0, "")
    assert lines[:3] == [
        "-- postgres of orders_by_city",
        'CREATE TABLE IF NOT EXISTS "public"."trips" ("tag_city" text, "n" bigint, "window_timestamp"'
        " timestamptz);",
        'CREATE UNIQUE INDEX ON "public"."trips" ("window_timestamp", "tag_city") NULLS NOT DISTINCT;',
    ]
    assert lines[3] == "-- log of orders_by_city"
    assert lines[4].startswith('CREATE TABLE IF NOT EXISTS "audit"."all" (')
    assert lines[5].startswith('CREATE TABLE IF NOT EXISTS "audit".daggers_written (')
    assert all(line.endswith(";") for line in lines if not line.startswith("-- "))


def test_the_sql_that_a_dagger_needs_is_that_of_its_file(shell: Any, tables: Any) -> None:
    assert shell("apply", tables)[0] == 0

    told = json.loads(shell("sink", "ddl", "orders_by_city", "-o", "json")[1])

    assert told == json.loads(shell("sink", "ddl", "-f", tables, "-o", "json")[1])
    assert [(made["sink"], len(made["statements"])) for made in told] == [("postgres", 2), ("log", 2)]


def test_where_nothing_has_to_be_made_or_something_is_wrong_that_is_said(
    shell: Any, dagger_file: str
) -> None:
    shell.fill()
    none = shell("sink", "ddl", "-f", shell.file("none.yaml", dagger_file))
    wrong = shell("sink", "ddl", "-f", shell.file("wrong.yaml", dagger_file.replace("COUNT(1)", "nope")))
    both = shell("sink", "ddl", "orders_by_city", "-f", "none.yaml")

    assert none == (0, "", "no sink needs anything to be made by SQL\n")
    assert (wrong[0], wrong[1], "nope" in wrong[2]) == (1, "", True)
    assert (both[0], "name one of them" in both[2]) == (2, True)
