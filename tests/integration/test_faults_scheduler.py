"""Any scheduler may be killed or suspended at any time: there is one driver, and one scheduler acts."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import Stack
from daggers.v1 import events_pb2
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least
from tests.integration.faults import driver, header, kill, of_type, process, records, send, until, up

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_a_scheduler_killed_in_mid_launch_and_in_mid_run_leaves_one_driver_which_is_adopted(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, start="latest")
    events = spread(range(120), cities=2)
    values = [booking(second, city_id=city) for second, city in events]

    cli("apply", "-f", file)
    until(lambda: bool(driver(stack, name)))
    kill(stack, "scheduler")  # spark-submit is on its way
    (launched,) = driver(stack, name)
    up(stack)
    first = cli.until(name, lambda dagger: dagger["phase"] == "RUNNING")["generation"]
    bookings.write(values[:60])
    kill(stack, "scheduler")
    bookings.write(values[60:])
    up(stack)
    rows = cli.rows(name, enough=at_least(4))
    after = cli.until(name, lambda dagger: dagger["phase"] == "RUNNING")["generation"]
    sessions = list(driver(stack, name))
    launches = [
        record
        for record in of_type(records(stack.kafka, "daggers.control"), events_pb2.LaunchIntended)
        if header(record, "ce_subject") == name
    ]
    cli("delete", name, "--wait")  # the adopter has it in hand

    assert sessions == [launched]
    assert [record.offset() for record in launches] == [first] == [after]
    assert counted(rows) == recount(events)
    assert driver(stack, name) == {}


@pytest.fixture(scope="module")
def second(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    """Another scheduler beside the stack's, with the same settings."""
    log = tmp_path_factory.mktemp("second") / "scheduler.log"
    env = process(stack, "scheduler").environ()
    with (
        log.open("wb") as out,
        subprocess.Popen([sys.executable, "-m", "scheduler"], env=env, stderr=out, cwd=log.parent) as other,
    ):
        try:
            until(lambda: b"scheduler.standby_begun" in log.read_bytes())
            yield other
        finally:
            other.terminate()
            other.wait(30)


def test_of_two_schedulers_one_acts(
    stack: Stack, cli: Cli, tmp_path: Path, second: subprocess.Popen[bytes]
) -> None:
    since = records(stack.kafka, "daggers.control")[-1].offset()
    name, file = Bookings(stack.kafka, cli).dagger(tmp_path)

    cli("apply", "-f", file, "--wait")
    sessions = len(driver(stack, name))
    cli("delete", name, "--wait")

    assert second.poll() is None
    assert sessions == 1
    assert acting(stack, since) == {leader(stack)}
    assert f"@{second.pid}-" not in leader(stack)


def test_a_suspended_leader_is_replaced_and_does_nothing_when_it_goes_on(
    stack: Stack, cli: Cli, tmp_path: Path, second: subprocess.Popen[bytes]
) -> None:
    name, file = Bookings(stack.kafka, cli).dagger(tmp_path)
    cli("apply", "-f", file, "--wait")
    (session,) = driver(stack, name)
    old = process(stack, "scheduler")
    log = stack.state_dir / "logs" / "scheduler.log"

    send(signal.SIGSTOP, old)
    try:
        until(lambda: f"@{second.pid}-" in leader(stack))
        taken = records(stack.kafka, "daggers.control")[-1].offset()
        cli("restart", name)  # what the old one may be tempted to do too
        said = log.stat().st_size
    finally:
        send(signal.SIGCONT, old)
    until(lambda: b"scheduler.standby_begun" in log.read_bytes()[said:])
    cli.until(name, lambda dagger: dagger["phase"] == "RUNNING" and dagger["generation"] > taken)
    sessions = list(driver(stack, name))
    cli("delete", name, "--wait")
    acted = acting(stack, taken)
    second.terminate()
    second.wait(30)
    until(lambda: f"@{old.pid}-" in leader(stack))  # and the old one is a good standby

    assert acted == {next(iter(acted))}
    assert f"@{second.pid}-" in next(iter(acted))
    assert len(sessions) == 1
    assert sessions != [session]
    assert old.status() != psutil.STATUS_STOPPED


def leader(stack: Stack) -> str:
    """ce_source of the newest claim."""
    claims = of_type(records(stack.kafka, "daggers.control"), events_pb2.SchedulerStarted)
    return header(claims[-1], "ce_source")


def acting(stack: Stack, since: int) -> set[str]:
    """The schedulers that have written anything after an offset."""
    sources = {
        header(record, "ce_source")
        for record in records(stack.kafka, "daggers.control")
        if (record.offset() or 0) > since
    }
    return {source for source in sources if source.startswith("/scheduler/")}
