"""`python -m tests.chaos.run MINUTES SEED [HOSTS]`: the embedded stack under faults, fed and recounted.

With two hosts each has a scheduler in namespaces of its own, and whole hosts die, too. Each fault is told as
it comes. Last line `chaos seed s: N faults, R rows recounted, 0 mismatches, 0 orphans`, before it the faults
by kind and those that this machine does not allow. Exit code 1 when a row differs from the recount, a dagger
has another number of drivers than one, or anything is left after `daggers local down`.
"""

import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import psutil
from daggers.v1 import telemetry_pb2
from tests.chaos.clock import Clock
from tests.chaos.daggers import SUBJECTS, Rows, mismatches, once, set_aside
from tests.chaos.faults import HITS, MissedError
from tests.chaos.feeder import Fed
from tests.chaos.gaps import excused, excused_aside
from tests.chaos.hosts import explain_missing
from tests.chaos.schedule import Round, schedule
from tests.chaos.world import StackError, World, world
from tests.integration.faults import belonging, header, listens, records

from eventlog import topics

SHOWN = 20
# The longest delay between two relaunches is 5 minutes; a cold start of all on a small machine takes two.
SETTLE_S = 600.0
START_S = 900.0
LAST_ROWS_S = 240.0
POLL_S = 3.0
ALL_ROWS = "1000000"
NOT_OURS = {
    "disk full of influxdb": "after it InfluxDB 1.8 loses what it acknowledges, see docs/operations.md"
}


class Run:
    """One run: its faults by kind, and what was found wrong."""

    def __init__(self, seed: int, minutes: float, hosts: int = 1) -> None:
        self.seed, self.hosts = seed, hosts
        self.faults: Counter[str] = Counter()
        self.impossible: dict[str, str] = dict(NOT_OURS)
        self.rows = self.left_out = 0
        self.mismatches: list[str] = []
        self.orphans: list[str] = []
        self._minutes = minutes
        self._start = time.monotonic()

    def live(self, folder: Path) -> None:
        """Everything, in a state directory of its own."""
        with tempfile.TemporaryDirectory() as aside:
            clock = Clock(Path(aside) / "clock")
            if clock.impossible:
                self.impossible["clock jumped"] = clock.impossible
            with world(folder, clock, self.seed, self.hosts) as stack:
                how = "a full tmpfs" if stack.disks.tmpfs else "RLIMIT_FSIZE: no tmpfs may be mounted here"
                if not stack.disks.tmpfs:
                    for kind in ("disk out of inodes", "disk read-only"):
                        self.impossible[kind] = "no tmpfs may be mounted here"
                self.say(f"the stack is up in {folder}; a full disk is {how}")
                stack.begin()
                if wrong := stack.unsettled(START_S):
                    raise StackError("; ".join(wrong))
                self.say(f"{len(SUBJECTS)} daggers run; faults for {self._minutes:g} minutes")
                self.suffer(stack)
                self.say("no more faults; everything has to settle")
                stack.bring_back(at_once=True)
                self.wrong(stack.unsettled(SETTLE_S))
                self.recount(stack, stack.feeder.close())
                ports = stack.listening()
                self.say("down")
        self.orphans = left(stack, ports)

    def suffer(self, stack: World) -> None:
        """The faults of the schedule, each at its time, or as soon after it as the stack is back."""
        begin = time.monotonic()
        for fault in schedule(self.seed, self._minutes, self.hosts):
            _wait(begin + fault.at_s - time.monotonic())
            self.round(stack, fault)
            self.wrong(stack.doubled())
            if stack.feeder.fed.deleted:
                stack.hear()

    def round(self, stack: World, each: Round) -> None:
        """Faults that begin and end together; then what they have ended is started again."""
        with ExitStack() as hits:
            for fault in each.faults:
                if fault.kind in self.impossible:
                    continue
                try:
                    hit = hits.enter_context(HITS[fault.kind](stack, fault))
                except (MissedError, psutil.NoSuchProcess) as error:
                    self.say(f"{fault.kind}: missed, {error}")
                else:
                    self.faults[fault.kind] += 1
                    self.say(f"{fault.kind}: {hit}, for {each.lasts_s:g} s")
            _wait(each.lasts_s)
        if back := stack.bring_back():
            self.say(f"  brought back: {', '.join(back)}")
        if stack.growing.is_set():
            self.say(f"  bookings come in {stack.grow()}, too")

    def recount(self, stack: World, fed: Fed) -> None:
        """Compare every row of every sink with the recount, once the last ones are there; and the drivers."""
        self.say(f"fed {len(fed.asked)} bookings and {len(fed.answered)} answers; waiting for the last rows")
        deadline = time.monotonic() + LAST_ROWS_S
        for name, subject in SUBJECTS.items():
            stack.hear()
            gaps = stack.gaps.get(name, set())
            every = subject.recount(fed)
            for sink in subject.sinks:
                while True:
                    actual = read(stack, name, sink)
                    expected = every - excused(subject, fed, every - actual, gaps)
                    if actual == expected or time.monotonic() > deadline:
                        break
                    _wait(POLL_S)
                differing = mismatches(expected, actual)
                self.rows += expected.total()
                left_out = every.total() - expected.total()
                self.left_out += left_out
                self.say(
                    f"{name} in {sink}: {expected.total()} rows, {left_out} left out and told,"
                    f" {len(differing)} mismatches"
                )
                self.wrong(f"{name} in {sink}: {one}" for one in differing)
            expected, actual = set_aside(subject, fed), quarantined(stack, name)
            expected -= excused_aside(subject, fed, expected - actual, gaps)
            differing = mismatches(expected, actual)
            self.rows += expected.total()
            self.say(f"{name} set aside {expected.total()}, {len(differing)} mismatches")
            self.wrong(f"{name} in quarantine: {one}" for one in differing)
        self.wrong(stack.unsettled(START_S))

    def verdict(self) -> int:
        """Print what came of it; answers the exit code."""
        for one in self.orphans:
            sys.stdout.write(f"orphan: {one}\n")
        sys.stdout.write(f"seed {self.seed}, {self._minutes:g} minutes\n")
        for kind, count in sorted(self.faults.items()):
            sys.stdout.write(f"{kind}: {count}\n")
        for kind, why in self.impossible.items():
            sys.stdout.write(f"not possible here: {kind}: {why}\n")
        sys.stdout.write(f"left out and told, because records were deleted unread: {self.left_out} rows\n")
        sys.stdout.write(
            f"chaos seed {self.seed}: {self.faults.total()} faults, {self.rows} rows recounted, "
            f"{len(self.mismatches)} mismatches, {len(self.orphans)} orphans\n"
        )
        return 1 if self.mismatches or self.orphans else 0

    def wrong(self, mismatches: Iterable[str]) -> None:
        """Mismatches: count them all, and tell the first few."""
        for one in mismatches:
            self.mismatches.append(one)
            if len(self.mismatches) <= SHOWN:
                self.say(f"  MISMATCH: {one}")

    def say(self, what: str) -> None:
        """A line of progress, with the minutes and seconds since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
        sys.stdout.write(f"{minutes:3}:{seconds:02}  {what}\n")
        sys.stdout.flush()


def read(stack: World, name: str, sink: str) -> Rows:
    """The rows of a dagger in one of its sinks."""
    subject = SUBJECTS[name]
    if sink == "kafka":
        written = records(stack.stack.kafka, name)
        return once((header(each, "ce_id"), subject.row(json.loads(each.value() or b""))) for each in written)
    rows = stack.cli("rows", name, "--sink", sink, "--limit", ALL_ROWS)
    return Counter(
        subject.row({"window_timestamp": row["window_timestamp"], **row["tags"], **row["fields"]})
        for row in rows
    )


def quarantined(stack: World, name: str) -> Rows:
    """What a dagger has set aside, each once: a record by its place, a row by what it says."""
    kept_back = set()
    topic = next(topic for topic in topics.TOPICS if topic.name == topics.QUARANTINE)
    for partition in range(topic.partitions):
        for record in records(stack.stack.kafka, topic.name, partition):
            one = telemetry_pb2.Quarantined.FromString(record.value() or b"")
            if one.dagger != name:
                continue
            if one.stage == "sink":
                kept_back.add((one.reason, *SUBJECTS[name].row(json.loads(one.decoded_prefix))))
            else:
                kept_back.add((one.reason, one.topic, one.partition, one.offset))
    return Counter(kept_back)


def left(stack: World, ports: set[int]) -> list[str]:
    """Processes that are still there after `down`, and ports on which somebody still listens."""
    leftovers = [f"process {driver.pid}" for driver in belonging(stack.stack.state_dir)]
    return leftovers + [f"port {port}" for port in sorted(ports) if listens(port)]


def main(minutes: float, seed: int, hosts: int = 1) -> int:
    """Run, and print what came of it; answers the exit code."""
    if hosts > 1 and (why := explain_missing()):
        sys.stderr.write(f"no hosts: {why}\n")
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="daggers-chaos-")).resolve()
    run = Run(seed, minutes, hosts)
    try:
        run.live(folder)
    except KeyboardInterrupt:
        run.say("interrupted; nothing is left running")
        shutil.rmtree(folder)
        return 130
    except BaseException:
        run.say(f"given up; the logs are in {folder}")
        raise
    code = run.verdict()
    if code == 0:
        shutil.rmtree(folder)
    else:
        sys.stderr.write(f"the logs are in {folder}\n")
    return code


def _wait(seconds: float) -> None:
    threading.Event().wait(max(seconds, 0))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *map(int, sys.argv[2:])))
