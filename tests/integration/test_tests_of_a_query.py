"""Tests of a dagger file on the real stack: by the command, and before apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Stack
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli

pytestmark = pytest.mark.integration
RECORDS: list[dict[str, Any]] = [
    {"status": "COMPLETED", "city_id": 1, "event_timestamp": "2026-01-01T12:00:10Z"},
    {"status": "COMPLETED", "city_id": 1, "event_timestamp": "2026-01-01T12:00:50Z"},
    {"status": "CANCELLED", "city_id": 1, "event_timestamp": "2026-01-01T12:00:55Z"},
    {"status": "COMPLETED", "city_id": 1},
]
MINUTE = "2026-01-01T12:01:00Z"


def query_test(name: str, bookings: int) -> dict[str, Any]:
    """Build a test that expects so many bookings in the one minute."""
    row = {"tag_city_id": "1", "num_of_bookings": bookings, "window_timestamp": MINUTE}
    expected = {"rows": [row], "quarantined": {"NO_EVENT_TIME": 1}, "late": 0}
    return {"name": name, "given": {"data_stream": RECORDS}, "expect": expected}


def test_a_file_is_tested_by_the_real_engine_and_applied_only_where_all_passes(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    two, three = query_test("two", 2), query_test("three", 3)
    name, file = bookings.dagger(tmp_path, sinks=[{"log": {}}], tests=[two, three])
    failed, only = cli.try_("test", file), cli.try_("test", "-f", file, "--only", "two")
    refused = cli.try_("apply", file, "--test")
    absent = cli.try_("get", name)
    spec = yaml.safe_load(file.read_text())
    misspelt = tmp_path / "misspelt.yaml"
    misspelt.write_text(
        yaml.safe_dump(spec | {"tests": [query_test("two", 2) | {"given": {"data_strem": []}}]})
    )
    wrong = cli.try_("test", misspelt)
    file.write_text(yaml.safe_dump(spec | {"tests": [two]}))
    applied = cli.try_("apply", file, "--test")
    tests = cli("get", name)["spec"]["tests"]
    cli("delete", name, "--wait")

    assert (failed.code, only.code, refused.code, absent.code, wrong.code, applied.code) == (1, 0, 1, 1, 1, 0)
    assert [(one["test"], one["passed"]) for one in failed.json["tests"]] == [("two", True), ("three", False)]
    assert (failed.json["passed"], failed.json["failed"]) == (1, 1)
    assert (only.json["passed"], only.json["failed"]) == (1, 0)
    assert refused.json["error"]["reason"] == "TESTS_FAILED"
    assert "data_strem" in wrong.out
    assert [one["name"] for one in tests] == ["two"]
