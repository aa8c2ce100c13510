"""The wall clock of the host is set forward and back under a stack that works: exact, and nobody is paged."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import running_stack
from daggers.v1 import alerts_pb2, events_pb2
from tests.integration.bookings import Bookings, Feed
from tests.integration.cli import Cli, runs
from tests.integration.faults import header, lasting, of_type, records, until
from tests.integration.heavy_sources import counting, counts, recount, rows

from eventlog.topics import ALERTS, CONTROL

pytestmark = [pytest.mark.integration, pytest.mark.long]

SOURCE = Path(__file__).parents[1] / "clock.c"
JUMPS_S = [3600, 0, -3600, 0, 86_400, 0]
"""By how much the clock is ahead of the true time, one after the other."""
EACH_S = 45.0


class Clock:
    """The wall clock of what is run by `command`: ahead of the host's by what `set` says."""

    def __init__(self, folder: Path) -> None:
        library, etc, self._offset = folder / "clock.so", folder / "etc", folder / "offset"
        self._offset.write_bytes(bytes(8))
        given = f'-DOFFSET_FILE="{self._offset}"'
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", given, "-o", library, SOURCE, "-ldl"], check=True)
        # Drivers get no LD_PRELOAD. /etc/ld.so.preload is for everybody, so these have another /etc.
        subprocess.run(["cp", "--archive", "/etc", etc], check=True)
        (etc / "ld.so.preload").write_text(f"{library}\n")
        self.command = ["unshare", "--mount", "sh", "-c", f'mount --bind "{etc}" /etc && exec "$@"', "sh"]

    def set(self, ahead_s: int) -> None:
        """Let it jump."""
        with self._offset.open("r+b") as file:
            file.write(struct.pack("=q", ahead_s * 10**9))


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    """Skips where no compiler is, or nobody may make a mount namespace."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler for a clock that jumps")
    made = Clock(tmp_path)
    tried = subprocess.run([*made.command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no mount namespace can be made here: {tried.stderr.strip()}")
    return made


@pytest.mark.timeout(1800)
def test_a_clock_that_jumps_by_hours_loses_nothing_launches_nothing_and_pages_nobody(
    clock: Clock, tmp_path: Path
) -> None:
    with running_stack(tmp_path / "stack", within=clock.command) as stack:
        cli = Cli(stack.state_dir)
        stream = Bookings(stack.kafka, cli)
        name, path = counting(stream, tmp_path)
        with Feed(stream, lambda second: (second % 7, second % 11)) as feed:
            cli("apply", "-f", path, "--wait")
            for ahead in JUMPS_S:
                before = counts(rows(stack.kafka, name)).total()
                clock.set(ahead)
                until(lambda before=before: counts(rows(stack.kafka, name)).total() > before)
                lasting(EACH_S)
                written = rows(stack.kafka, name)[-1][0].timestamp()[1] / 1000
                assert written == pytest.approx(time.time() + ahead, abs=40), "its clock did not jump"
        until(lambda: counts(rows(stack.kafka, name)).total() >= len(feed.events))
        found = counts(rows(stack.kafka, name))
        cli.until(name, runs)
        launches = Counter(
            header(record, "ce_subject")
            for record in of_type(records(stack.kafka, CONTROL), events_pb2.LaunchIntended)
        )
        alerts = [
            header(record, "ce_subject")
            for record in of_type(records(stack.kafka, ALERTS), alerts_pb2.AlertFired)
        ]

    assert found == recount(feed.events)
    assert launches == {name: 1}
    assert alerts == []
