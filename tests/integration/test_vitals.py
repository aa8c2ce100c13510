"""What is told of a running dagger is true, and a sink that is away is named while it is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Stack
from tests.integration.cli import Cli
from tests.integration.faults import kill, process, until, up
from tests.integration.watching import is_running, watched

from chassis import drivers, processes

pytestmark = [pytest.mark.integration, pytest.mark.long]

NAMED_S = 10.0
BUSY_S = 5.0
"""What a busy machine may add."""
BEAT_S = 5.0


def age(instant: str) -> timedelta:
    """How long ago an instant was."""
    return datetime.now(UTC) - datetime.fromisoformat(instant)


def test_the_vitals_of_a_running_dagger_are_true_and_a_sink_that_is_away_is_named(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    with watched(stack, cli, tmp_path) as watch:
        watch.until(is_running)
        vitals: dict[str, Any] = cli.until(
            watch.name, lambda dagger: (dagger["vitals"] or {}).get("rows_per_s", 0) > 0
        )["vitals"]
        fed, unread = watch.fed, watch.unread()

        assert vitals["records_per_s"] > 0
        assert 0 < vitals["rows"] <= vitals["records"] <= fed  # each record is a row
        assert vitals["lag"] + vitals["records"] <= fed
        assert unread <= fed
        assert vitals["watermark"] is None  # rows that only pass wait for nothing
        assert age(vitals["last_commit"]) < timedelta(seconds=3 * BEAT_S + BUSY_S)
        assert vitals["memory_bytes"] > 0
        assert vitals["quarantined"] == {}
        assert [vital["code"] for vital in vitals["warnings"]] == ["RECORDS_SHARE_POINTS"]  # of its query

        database = process(stack, "influxdb")
        address = stack.influx["url"]
        kill(stack, "influxdb")
        away = datetime.now(UTC)
        try:
            told = cli.until(watch.name, sinks_away, deadline_s=NAMED_S + BUSY_S)
            took = datetime.now(UTC) - away
        finally:
            up(stack)
        again = cli.until(watch.name, lambda dagger: not sinks_away(dagger) and dagger["phase"] == "RUNNING")

    warning = sinks_away(told)[0]

    assert not database.is_running()
    assert took < timedelta(seconds=NAMED_S + BUSY_S)
    assert (warning["object"], warning["domain"]) == ("influx", "EXTERNAL")
    assert address in warning["message"]
    assert warning["next"]
    assert again["generation"] == told["generation"]


def test_what_a_dagger_costs_is_what_the_processes_of_its_driver_have_taken(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    team = tmp_path / "team.yaml"
    team.write_text("kind: team\nname: payers\nquotas:\n  drivers: {hard: 1}\n")
    cli("team", "apply", team)
    began = datetime.now(UTC)
    with watched(stack, cli, tmp_path, team="payers") as watch:
        watch.until(is_running)
        leader = next(
            dagger.pid for dagger in drivers.living(stack.state_dir / "runs") if dagger.dagger == watch.name
        )
        before = processes.measure_session(leader)
        usage = cost = {}

        def is_heard() -> bool:
            """Whether a heartbeat is told that is younger than the look at the processes."""
            nonlocal usage, cost
            usage = cli("team", "usage", "payers")
            cost = usage["daggers"][0]
            return bool(cost["cpu_seconds"] >= before.cpu_seconds and cost["records"] > 0)

        until(is_heard, deadline_s=60)
        after, age = processes.measure_session(leader), datetime.now(UTC) - began
    cli("team", "delete", "payers", "--yes")

    assert before.cpu_seconds <= cost["cpu_seconds"] <= after.cpu_seconds + BUSY_S
    assert before.cpu_seconds > 1  # a JVM has started
    assert 0 < cost["age_s"] <= age.total_seconds() + BUSY_S
    assert cost["cpu_seconds_per_day"] == pytest.approx(cost["cpu_seconds"] / cost["age_s"] * 86_400)
    assert after.resident_bytes / 3 < cost["memory_bytes"] < after.resident_bytes * 3
    assert cost["records"] <= watch.fed
    assert {each["name"]: each["used"] for each in usage["quotas"]} | {"records_per_second": 0} == {
        "daggers": 1, "drivers": 1, "memory_mib": cost["launch_memory_mib"], "records_per_second": 0,
        "rows_per_minute": pytest.approx(cost["rows_per_minute"], rel=1), "preview_seconds_per_hour": 0,
    }  # fmt: skip


def sinks_away(dagger: dict[str, Any]) -> list[dict[str, Any]]:
    """The warnings of a dagger about its sinks."""
    warnings = (dagger["vitals"] or {}).get("warnings", [])
    return [warning for warning in warnings if warning["code"].startswith("SINK_")]
