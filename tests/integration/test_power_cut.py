"""A power cut on a busy machine: everything is killed at once, started again, and goes on exactly."""

from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from conftest import running_stack
from daggers.v1 import events_pb2
from tests.integration.bookings import NOON, Bookings, booking
from tests.integration.cli import Cli, runs
from tests.integration.faults import belonging, header, loaded, of_type, records, until, up
from tests.integration.heavy_sources import counting, counts, recount, rows

from eventlog.topics import CONTROL

pytestmark = [pytest.mark.integration, pytest.mark.long]

DAGGERS = 6
LOAD = 40
# Six drivers start side by side, each with a fortieth of a machine.
PATIENCE_S = 1500.0


@pytest.mark.timeout(3600)
def test_after_a_power_cut_at_load_40_six_daggers_are_up_again_by_one_launch_each_and_exact(
    tmp_path: Path,
) -> None:
    with running_stack(tmp_path / "stack") as stack:
        cli = Cli(stack.state_dir)
        stream = Bookings(stack.kafka, cli)
        daggers = [counting(stream, tmp_path) for _ in range(DAGGERS)]
        names = [name for name, _ in daggers]
        events = [(second / 4, second % 3) for second in range(4 * 120)]
        written = iter(events)

        def write(number: int) -> None:
            some = [next(written) for _ in range(number)]
            stream.write(booking(second, city_id=city) for second, city in some)

        write(160)
        for _, path in daggers:
            cli("apply", "-f", path)
        for name in names:
            cli.until(name, runs, deadline_s=PATIENCE_S)
        with loaded(LOAD):
            write(160)
            before = len(records(stack.kafka, CONTROL))
            for process in belonging(stack.state_dir):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            up(stack)
            write(160)
            for name in names:
                cli.until(name, runs, deadline_s=PATIENCE_S)
        expected = recount((NOON + second, city) for second, city in events)
        for name in names:
            until(lambda name=name: counts(rows(stack.kafka, name)).total() >= len(events))
        found = {name: counts(rows(stack.kafka, name)) for name in names}
        launches = Counter(
            header(record, "ce_subject")
            for record in of_type(records(stack.kafka, CONTROL)[before:], events_pb2.LaunchIntended)
        )

    assert found == dict.fromkeys(names, expected)
    assert launches == Counter(names)
