"""Two schedulers of two host names on one machine, with one broker and one checkpoint root: a dagger runs on
the host that does not lead, obeys there, and runs on the other one when its host is lost.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from conftest import Stack
from tests.integration.bookings import COUNT_SQL, Bookings, booking, counted, recount, spread
from tests.integration.cli import DEADLINE_S, Cli, at_least, runs
from tests.integration.faults import lasting, until
from tests.integration.sink_tests import steps
from tests.integration.two_hosts import (
    SECOND,
    find_host,
    find_own_address,
    find_recovery,
    launched_on,
    replayed_on,
    two_hosts,
)

from chassis import drivers
from chassis.pressure import overload
from scheduler.leader.host_watch import BEAT_EVERY, GONE_AFTER

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="host names and mounts of a test's own need root"),
    pytest.mark.skipif(not find_own_address(), reason="a gateway reaches no other host at loopback"),
]

BOUND = timedelta(seconds=150)
"""Time after the loss of a host within which its critical daggers run elsewhere."""
LOST_WITHIN_S = 400
"""Bound of a machine that has too much to do: two minutes in which it ran, and a start."""


def register_cluster(stack: Stack, cli: Cli, secrets: Path) -> str:
    """Register a cluster on the stack's Kafka and InfluxDB whose secrets are two files of a folder."""
    name = f"far-{uuid4().hex[:8]}"
    cli(
        "cluster", "register", name, "--kafka", stack.kafka, "--spark-master", "local[2]",
        "--kafka-secret", f"ssl.key.password=file:{secrets / 'kafka'}",
        "--influx-url", stack.influx["url"], "--influx-org", "-",
        "--influx-bucket", stack.influx["bucket"], "--influx-token-file", secrets / "influx",
    )  # fmt: skip
    return name


def preview(cli: Cli, file: Path) -> dict[str, Any]:
    """Preview what is there, and return how that ended."""
    outcome = cli.try_("preview", file, "--last-records", "1000")
    assert outcome.code == 0, outcome
    done: dict[str, Any] = json.loads(outcome.out.splitlines()[-1])["done"]
    return done


def edit(file: Path, **changes: object) -> Path:
    """Change keys of a dagger file."""
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | changes, sort_keys=False))
    return file


def test_everything_of_a_dagger_works_on_a_host_that_does_not_lead(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    """Let nothing be possible on the leader's host: it has no secret of the dagger's cluster."""
    secrets, files = tmp_path / "secrets", tmp_path / "files-of-second"
    for folder in (secrets, files):
        folder.mkdir()
    (files / "kafka").write_text("asked by nobody\n")
    (files / "influx").write_text(stack.influx["token"])
    # The windows end by what comes behind them alone.
    events = spread(range(180), cities=2)
    values = [booking(moment, city_id=city) for moment, city in [*events, (300, 1)]]
    with two_hosts(stack, cli, tmp_path, own_files={secrets: files}):
        cluster = register_cluster(stack, cli, secrets)
        bookings = Bookings(stack.kafka, cli, cluster=cluster)
        bookings.write(values[:60])
        at_once = cli("stream", "sample", bookings.name, "--last-records", "5")
        leader = next(host["name"] for host in cli("host", "list") if host["leads"])
        lacking = {f"file {secrets / name}" for name in ("kafka", "influx")}
        until(lambda: lacking <= set(find_host(cli, leader)["lacks"]))
        sampled = cli("stream", "sample", bookings.name, "--last-records", "5")
        name, file = bookings.dagger(tmp_path, idle_timeout="off")
        previewed = preview(cli, file)
        tested = cli.try_("sink", "test", "-f", file)
        cli("apply", "-f", file)
        cli.until(name, runs)
        bookings.write(values[60:90])
        cli("stop", name, "--wait")
        bookings.write(values[90:120])
        cli("start", name)
        cli.until(name, runs)
        cli("restart", name)
        until(lambda: len(launched_on(stack, name)) >= 3)
        cli.until(name, runs)
        other = tmp_path / "other.yaml"
        other.write_text(file.read_text())
        planned = cli("plan", edit(other, sql=COUNT_SQL.replace("COMPLETED", "CANCELLED")))
        cli("apply", "-f", edit(file, trigger="2s"))
        until(lambda: len(launched_on(stack, name)) >= 4)
        cli.until(name, runs)
        bookings.write([*values[120:], b"\xff", booking(301)])
        rows = cli.rows(name, enough=at_least(6))
        log = cli("logs", name, "--lines", "5")
        until(lambda: bool(cli("quarantine", "list", name)), deadline_s=DEADLINE_S)
        [record] = cli("quarantine", "list", name)
        mended = tmp_path / "mended.bin"
        mended.write_bytes(booking(2))
        chosen = ("quarantine", "replay", name, "--id", record["id"], "--with", mended)
        foreseen = cli(*chosen, "--dry-run")
        replayed = cli(*chosen, "--recompute", "--yes", "--wait")
        replay_log = cli("logs", name, "--replay")
        after = cli.rows(name, enough=lambda found: counted(found) != counted(rows))
        places = launched_on(stack, name), replayed_on(stack, name)
        cli("delete", name, "--wait")

    assert [len(sample["records"]) for sample in (at_once, sampled)] == [5, 5]
    assert previewed["records"] == 60
    assert tested.code == 0, tested
    assert {reason for _, _, reason in steps(tested)} == {""}
    assert (planned["reads_unchecked"], bool(planned["reads"])) == ("", True)
    assert counted(rows) == recount(events)
    assert 0 < len(log["lines"]) <= 5
    assert [each["outcome"] for each in foreseen["forecast"]] == ["LATE"]
    assert replayed["outcomes"] == {"REPLAYED": 1}
    assert replay_log["lines"]
    assert counted(after) == recount([*events, (2, 1)])
    assert places == ([SECOND] * len(places[0]), {SECOND})


def test_a_critical_dagger_of_a_lost_host_runs_on_the_other_one_in_time_and_misses_nothing(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    events = spread(range(180), cities=2)
    # The windows end by what comes behind them alone: the second one is open while its host is lost.
    values = [booking(moment, city_id=city) for moment, city in [*events, (300, 1)]]
    overloads: set[str] = set()
    with two_hosts(stack, cli, tmp_path) as second:
        bookings = Bookings(stack.kafka, cli)
        name, file = bookings.dagger(
            tmp_path, start="latest", idle_timeout="off", priority="critical", needs={"zone": "b"}
        )
        cli("apply", "-f", file)
        cli.until(name, runs)
        bookings.write(values[:90])
        # What another host may run, and only this one has run.
        cli("apply", "-f", edit(file, needs={}))
        until(lambda: len(launched_on(stack, name)) >= 2)
        cli.until(name, runs)
        with second.freeze():
            lost_at = datetime.now(UTC)
            bookings.write(values[90:])

            def is_recovered() -> bool:
                overloads.add(overload())
                lasting(2)  # each look reads the whole control topic
                return find_recovery(stack, name, lost_at) is not None

            until(is_recovered, deadline_s=LOST_WITHIN_S)
            rows = cli.rows(name, enough=at_least(6))
            gone = find_host(cli, SECOND)["gone"]
        until(lambda: not drivers.living(second.runs))
        until(lambda: not find_host(cli, SECOND)["gone"])
        later = cli.rows(name, enough=at_least(6))
        where = launched_on(stack, name)
        cli("delete", name, "--wait")
    recovery = find_recovery(stack, name, lost_at)
    sys.stdout.write(f"a critical dagger of a lost host ran elsewhere after {recovery} {overloads - {''}}\n")

    assert where[:-1] == [SECOND] * (len(where) - 1)
    assert where[-1] != SECOND
    assert gone["cause"] == "silence"
    assert counted(rows) == counted(later) == recount(events)
    assert recovery is not None
    assert recovery.silence >= GONE_AFTER - BEAT_EVERY
    if overloads == {""}:
        assert recovery.total <= BOUND
