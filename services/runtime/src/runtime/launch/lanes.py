"""The logs of all sinks of a launch: which sinks have one, and what goes there, for who writes batches.

A sink whose `on_outage` says a time gets a log when it takes no rows for a few seconds, or holds the others
for longer. From then on all its rows go there, until the sink has taken everything. Logs that an earlier
launch has left are found at the first batch, of any sink: what stands in them goes first. Where a log is full
its rule says what is next: the batch waits, the oldest rows are quarantined (`drain.py`), or the driver ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import partial
from typing import Final

from daggers.v1 import spec_pb2

from chassis.logging import logger
from daggerspec import outages
from runtime.clients.breaker import FLOOD
from runtime.errors import JobError, external
from runtime.launch import progress
from runtime.launch.delivery import PATIENCE_S
from runtime.launch.drain import Drainer
from runtime.launch.lane import Lane
from runtime.launch.launch import Launch
from runtime.launch.report import Report, Trouble, trouble_of
from runtime.sinks import BatchRef, Target
from runtime.spool.log import LogAddress, TopicAddress, find_sinks, topic_of
from runtime.spool.marker import Marker, parts_of
from runtime.spool.state import MOST_BYTES, LogLimit

FULL: Final = "As much of its rows waits as may."
_RETRY_S = 2.0
_LOOK_AGAIN_S = 60.0


class Lanes:
    """Logs of the sinks of one launch. Only the thread of the batches uses it."""

    def __init__(
        self,
        launch: Launch,
        targets: Sequence[Target],
        leave: Callable[[str], None],
        *,
        find: Callable[[], Set[str]],
        address: Callable[[str], LogAddress],
    ) -> None:
        """leave: ends the last batch of a drain unwritten; it does not return. find: finds the sinks that
        have a log. address: of the log of a sink.
        """
        self._launch, self._leave = launch, leave
        self._targets = {target.name: target for target in targets}
        self._find, self._address = find, address
        self._lanes: dict[str, Lane] = {}
        self._is_open = False
        self._look_at = time.monotonic()
        """Time from when on logs are looked for, of the monotonic clock."""
        self._loaded: set[str] = set()
        self._reporting = threading.Lock()
        self._refused: dict[str, tuple[float, Trouble]] = {}
        """Sinks whose log Kafka does not make or write: until when, of the monotonic clock, and why."""

    def begin_batch(self) -> dict[str, LogAddress]:
        """Return the sinks whose rows go to their logs, once there is room. Raises: what ended a drainer."""
        while not self._is_open and (self._may_append() or time.monotonic() >= self._look_at):
            try:
                self._open()
            except JobError as error:
                if not self._may_append():
                    self._look_at = time.monotonic() + _LOOK_AGAIN_S
                    break  # a broker that is away holds up no dagger that has no use for a log
                self._wait(trouble_of("spool", error))
        if self._is_open:  # else what an earlier launch has left is unknown, and would be deleted unread
            self._create_paused()
        for lane in self._lanes.values():
            lane.raise_failure()
            while lane.is_full and lane.name in self._targets:
                if lane.trouble is not None and self._must_fail(lane):
                    raise external("SINK_UNAVAILABLE", lane.trouble.error.detail, retryable=True)
                self._wait(
                    lane.trouble or trouble_of(lane.name, external("SPOOL_FULL", FULL, retryable=True))
                )
                lane.raise_failure()
        return {
            lane.name: lane.address
            for lane in self._lanes.values()
            if lane.name in self._targets and self._goes_to_log(lane)
        }

    def _goes_to_log(self, lane: Lane) -> bool:
        if lane.is_paused or lane.first is not None:
            return True
        return (lane.is_slow or not lane.is_empty) and not self._is_refused(lane.name)

    def _must_fail(self, lane: Lane) -> bool:
        may_fail = not (lane.is_paused or lane.is_flooded)
        return may_fail and self._rule(lane.name).then == spec_pb2.OnOutage.THEN_FAIL

    def _create_paused(self) -> None:
        """Make the logs of the sinks that somebody has paused."""
        for name in sorted(self._targets.keys() & self._launch.paused_sinks()):
            while name not in self._lanes and name in self._launch.paused_sinks():
                try:
                    self._address(name).open().create()
                    self._lane(name)
                except JobError as error:
                    self._wait(trouble_of(name, error))

    def take_over(self, away: Mapping[str, Trouble]) -> dict[str, LogAddress]:
        """Return those of the sinks that take no rows whose rows go to a log from now on."""
        addresses = {}
        for name, trouble in away.items():
            if trouble.error.reason == FLOOD or not self._has_rule(name):
                continue
            if (lane := self._create_log(name)) is not None:
                lane.set_trouble(trouble)
                addresses[name] = lane.address
        return addresses

    def note_slow(self, report: Report, took_s: float) -> None:
        """Have the rows of a sink go to a log that took longer for a batch than it may, and than all else.

        took_s: for the whole batch. So a dagger that catches up, and computes meanwhile, writes as it is.
        """
        for name in self._targets if len(self._targets) > 1 else ():
            seconds = report.longest_s(name)
            if seconds <= max(PATIENCE_S, took_s / 2) or not self._has_rule(name):
                continue
            if (lane := self._create_log(name)) is not None:
                logger().warning("spool.sink_slowed", sink=name, seconds=round(seconds, 1))
                lane.set_slow()

    def give_up(self, failed: Mapping[str, Trouble]) -> frozenset[str]:
        """Return those of the sinks whose log takes no rows that go on without: nothing stands in their logs.

        For a minute none of their rows go there, and the batch waits for the sink itself. A log that has
        something is written to the sink first.
        """
        gone = set()
        for name, trouble in failed.items():
            lane = self._lanes[name]
            if lane.first is None and not lane.is_paused:
                self._refuse(name, trouble)
                gone.add(name)
        return frozenset(gone)

    def refusals(self, names: Collection[str]) -> dict[str, Trouble]:
        """Return why those of the sinks have no log that would have one."""
        return {name: self._refused[name][1] for name in names if self._is_refused(name)}

    def _create_log(self, name: str) -> Lane | None:
        """Return the lane of a sink once there is a log; None where Kafka makes none."""
        if self._is_refused(name):
            return None
        lane = self._lane(name)
        try:
            lane.log.create()
        except JobError as error:
            self._refuse(name, trouble_of(name, error))
            return None
        return lane

    def _refuse(self, name: str, trouble: Trouble) -> None:
        self._refused[name] = time.monotonic() + _LOOK_AGAIN_S, trouble
        logger().warning("spool.refused", sink=name, why=trouble.error.detail)

    def _is_refused(self, name: str) -> bool:
        return name in self._refused and time.monotonic() < self._refused[name][0]

    def mark(self, batch: BatchRef, name: str, report: Report) -> None:
        """Append the marker of a sink's rows of a batch, which Spark may commit then."""
        parts = parts_of(report.spooled.get(name, ()))
        if not any(part.rows for part in parts):
            return
        oldest = report.waiting.get(name)
        marker = Marker(
            batch,
            parts,
            oldest.timestamp() if oldest is not None else None,
            self._targets[name],
            time.time(),
        )
        while True:
            self._launch.lease.confirm()
            try:
                self._lanes[name].append(marker)
            except JobError as error:
                self._wait(trouble_of(name, error))
            else:
                return

    def troubles(self) -> dict[str, Trouble]:
        """Return why sinks whose rows wait in a log take none."""
        return {
            lane.name: lane.trouble
            for lane in self._lanes.values()
            if lane.trouble is not None and not lane.is_empty
        }

    def _may_append(self) -> bool:
        """Tell whether rows may have to go to a log: by the rule of a sink, or because one is paused."""
        return any(map(self._has_rule, self._targets)) or bool(self._launch.paused_sinks())

    def _has_rule(self, name: str) -> bool:
        return outages.spools(self._rule(name))

    def _rule(self, name: str) -> spec_pb2.OnOutage:
        target = self._targets.get(name)
        return target.resolved.sink.on_outage if target is not None else spec_pb2.OnOutage()

    def _open(self) -> None:
        """Find the logs that there are. Raises: JobError."""
        for name in sorted(self._find() - self._loaded):
            lane = self._lane(name)
            lane.load(self._launch.spec.created)
            self._loaded.add(name)  # it is drained from now on: read again, it would have what is gone
            lane.delete_log()
        self._is_open = True
        self._report()

    def _lane(self, name: str) -> Lane:
        """Make the lane of a sink, and what drains it."""
        if name in self._lanes:
            return self._lanes[name]
        rule = self._rule(name)
        lane = Lane(
            name,
            self._address(name),
            self._targets.get(name),
            LogLimit(MOST_BYTES, outages.longest_wait(rule)),
            overflows=rule.then == spec_pb2.OnOutage.THEN_SKIP,
            changed=self._report,
            paused=lambda: name in self._launch.paused_sinks(),
        )
        self._lanes[name] = lane
        Drainer(self._launch, lane).start()
        return lane

    def _wait(self, trouble: Trouble) -> None:
        """Wait a little, and report why; leave the batch where the launch stops."""
        self._launch.heartbeat.update(partial(progress.retrying, why=[trouble.error]))
        if self._launch.stopping.wait(_RETRY_S):
            self._leave(trouble.error.detail)

    def _report(self) -> None:
        with self._reporting:  # of two reports the later one has to be the last
            reports = {name: lane.report() for name, lane in list(self._lanes.items())}
            step = partial(
                progress.set_spools, reports={name: report for name, report in reports.items() if report}
            )
            self._launch.heartbeat.update(step)


def open_lanes(launch: Launch, targets: Sequence[Target], leave: Callable[[str], None]) -> Lanes:
    """Open the lanes of a launch, whose logs are topics of the platform's Kafka."""
    platform, dagger = launch.spec.platform, launch.spec.dagger
    serialised = platform.SerializeToString(deterministic=True)
    return Lanes(
        launch,
        targets,
        leave,
        find=lambda: find_sinks(platform, dagger),
        address=lambda name: TopicAddress(serialised, topic_of(dagger, name)),
    )
