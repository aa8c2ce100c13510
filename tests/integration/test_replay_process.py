"""An attempt of a replay as a scheduler starts it: command line, environment, directory, end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from services.runtime.tests.replay import Desk
from services.runtime.tests.replay import desk as shared_desk

from daggerspec import rundir
from fleet.decide.observation import Presence
from scheduler.drivers import command
from scheduler.drivers.process_table import Drivers

desk = shared_desk  # a fixture

pytestmark = pytest.mark.integration
DEADLINE_S = 240.0


def test_rows_are_replayed_by_a_process_as_a_scheduler_starts_it(
    desk: Desk,
    tmp_path: Path,
) -> None:
    desk.deliver({-1: 7, 1: 5})
    desk.sql("ALTER TABLE counts DROP CONSTRAINT positive")
    asked = desk.ask()
    drivers = Drivers(tmp_path / "runs", host="here", python=sys.executable)
    desk.generation = 300
    job = desk.spec(drivers.attempt_dir(300))
    words = [*command.replay(job, Path(sys.executable)), "--sequence", "190", "--created", "10"]
    process = drivers.start_attempt(job, asked, words, command.replay_environment(job, {"HOME": "/root"}))
    end = time.monotonic() + DEADLINE_S
    while drivers.presence(process) is Presence.ALIVE:
        assert time.monotonic() < end, (Path(process.run_dir) / rundir.LOG).read_text()
        time.sleep(0.05)  # nothing tells the end of a process that is not our child

    log = (Path(process.run_dir) / rundir.LOG).read_text()
    assert drivers.exit(process).code == 0, log
    assert (drivers.outcomes(process), desk.rows()) == ({"REPLAYED": 1}, [(-1, 7), (1, 5)])
    assert list(desk.outcomes(asked.replay_id).values()) == ["REPLAYED"]
