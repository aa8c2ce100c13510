"""Two schedulers of two host names on one machine, with one broker and one checkpoint root: a dagger runs on
the host that does not lead, obeys there, and runs on the other one when its host is lost.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from conftest import Stack
from daggers.v1 import events_pb2
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least, runs
from tests.integration.faults import kill, of_type, process, records, until, up

from chassis import drivers

pytestmark = [pytest.mark.integration, pytest.mark.long]

SECOND = "second"
LOST_WITHIN_S = 400
"""Two minutes of silence, and a start on a machine that has other things to do."""


@contextmanager
def scheduler(
    env: dict[str, str], folder: Path, host: str, event: bytes
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a scheduler under a host name, its log in `folder`, until it logs `event`."""
    folder.mkdir()
    log = folder / "scheduler.log"
    words = [sys.executable, "-m", "scheduler", "--label", "zone=a"]
    if host:
        words = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$0" "$@"', *words]
    with log.open("wb") as out, subprocess.Popen(words, env=env, stderr=out, cwd=folder) as service:
        try:
            until(lambda: event in log.read_bytes())
            yield service
        finally:
            service.terminate()
            service.wait(30)


def lose(service: subprocess.Popen[bytes], runs_folder: Path) -> None:
    """kill -9 of a scheduler and of everything that it has launched."""
    service.kill()
    service.wait(30)
    for driver in drivers.living(runs_folder):
        for member in drivers.members(driver):
            with suppress(psutil.NoSuchProcess):
                psutil.Process(member.pid).kill()


def launched_on(stack: Stack, name: str) -> list[str]:
    """List the hosts of a dagger's launches, in their order; a launch may be reported again."""
    facts = [
        events_pb2.Launched.FromString(record.value() or b"")
        for record in of_type(records(stack.kafka, "daggers.control"), events_pb2.Launched)
    ]
    own = [fact for fact in facts if fact.meta.name == name and not fact.adopted]
    return list({fact.meta.generation: fact.driver.host for fact in own}.values())


@pytest.mark.long
def test_a_dagger_of_a_host_that_is_lost_runs_on_the_other_one_and_misses_nothing(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    env = process(stack, "scheduler").environ() | {
        "DAGGERS_SCHEDULER_CHECKPOINT_ROOT": str(tmp_path / "shared"),
        "DAGGERS_SCHEDULER_SPARE": "false",
        "DAGGERS_SCHEDULER_METRICS_BIND": "127.0.0.1:0",
    }
    (tmp_path / "shared").mkdir()
    first = env | {
        "DAGGERS_SCHEDULER_STATE_DIR": str(tmp_path / "first-state"),
        "DAGGERS_SCHEDULER_MEMORY_MIB": "3000",
    }
    second = env | {
        "DAGGERS_SCHEDULER_STATE_DIR": str(tmp_path / "second-state"),
        "DAGGERS_SCHEDULER_MEMORY_MIB": "6000",
    }
    events = spread(range(180), cities=2)
    # The windows end by what comes behind them alone: the second one is open while its host is lost.
    values = [booking(moment, city_id=city) for moment, city in [*events, (300, 1)]]
    kill(stack, "scheduler")
    try:
        with (
            scheduler(first, tmp_path / "first", "", b"scheduler.leadership_gained"),
            scheduler(second, tmp_path / "second", SECOND, b"scheduler.standby_begun") as lost,
        ):
            until(
                lambda: any(host["name"] == SECOND and host.get("heard_time") for host in cli("host", "list"))
            )
            bookings = Bookings(stack.kafka, cli)
            # It takes all the room of the host that leads, so that the next one runs on the other.
            filler, file = bookings.dagger(tmp_path, start="latest")
            cli("apply", "-f", file)
            cli.until(filler, runs)
            name, file = bookings.dagger(
                tmp_path, start="latest", idle_timeout="off", priority="critical", needs={"zone": "a"}
            )
            cli("apply", "-f", file)
            cli.until(name, runs)
            bookings.write(values[:60])
            cli("stop", name, "--wait")
            bookings.write(values[60:90])
            cli("start", name)
            cli.until(name, runs)
            cli("restart", name)
            until(lambda: len(launched_on(stack, name)) >= 3)
            cli.until(name, runs)
            cli("delete", filler, "--wait")
            lose(lost, tmp_path / "second-state" / "runs")
            bookings.write(values[90:])
            until(lambda: launched_on(stack, name)[-1] != SECOND, deadline_s=LOST_WITHIN_S)
            cli.until(name, runs)
            rows = cli.rows(name, enough=at_least(6))
            where = launched_on(stack, name)
            cli("delete", name, "--wait")
    finally:
        up(stack)

    *before, after = where
    assert before == [SECOND] * len(before)
    assert len(before) >= 3
    assert after != SECOND
    assert counted(rows) == recount(events)
