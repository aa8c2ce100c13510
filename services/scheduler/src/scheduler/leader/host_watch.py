"""Adds up the silence of hosts on the heartbeats topic, in the time in which this process could hear.

A process that stood still, whose clock jumped, or that Kafka does not answer hears nobody. So a pause counts
as a few seconds, and nothing counts as silence of others while no scheduler at all is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import telemetry_pb2

from fleet.fold.hosts import Standing

BEAT_EVERY: Final = timedelta(seconds=5)
HEARD_WITHIN: Final = timedelta(seconds=20)
"""Time without a beat after which an agent is not counted on."""
GONE_AFTER: Final = timedelta(seconds=120)
"""Silence after which a host is gone, where leases are shared: twice the time after which a driver that
cannot read its lease ends itself (runtime.state.lease).
"""
_TURN: Final = timedelta(seconds=5)
"""Longest pause between two looks of a process that gets its processor."""
_NEVER: Final = timedelta.max


class HostWatch:
    """Adds up the silence of each host, and of its agent."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        """clock: this instant, UTC."""
        self._now = clock
        self._last = clock()
        self._deaf = timedelta(0)
        self._silences: dict[str, timedelta] = {}
        self._agents: dict[str, tuple[int, timedelta]] = {}
        """Newest epoch of each host that is heard or registered, and its silence since."""
        self._beaten: dict[str, telemetry_pb2.HostBeat] = {}
        """Newest beat of each host, of its newest epoch."""

    def note_scheduler(self) -> None:
        """Take the beat of any leading scheduler as proof that this process hears."""
        self._deaf = timedelta(0)

    def note_driver(self, host: str) -> None:
        """Take a heartbeat of a driver as a sign of its host."""
        if host in self._silences:
            self._silences[host] = timedelta(0)

    def note_agent(self, beat: telemetry_pb2.HostBeat) -> None:
        """Take a beat as a sign of a host, and of its agent unless a newer one is heard."""
        self._silences[beat.host] = timedelta(0)
        epoch, _ = self._agents.get(beat.host, (-1, _NEVER))
        if beat.epoch >= epoch:
            self._agents[beat.host] = beat.epoch, timedelta(0)
            self._beaten[beat.host] = beat

    def advance(self, hosts: Mapping[str, Standing]) -> None:
        """Let the time pass since the last call; `hosts` are those that the log knows."""
        now = self._now()
        step = min(max(now - self._last, timedelta(0)), _TURN)
        self._last = now
        self._deaf += step
        if self._deaf > HEARD_WITHIN:
            step = timedelta(0)
        self._silences = {host: self._silences.get(host, timedelta(0)) + step for host in hosts}
        for host, standing in hosts.items():
            epoch, silence = self._agents.get(host, (-1, _NEVER))
            # The agent of a newer epoch has had no time to beat.
            self._agents[host] = (
                (epoch, silence + step) if epoch >= standing.epoch else (standing.epoch, step)
            )

    def silence(self, host: str) -> timedelta:
        """Return for how long nothing of a host was heard; of one that was never heard, since it is known."""
        return self._silences.get(host, timedelta(0))

    def hears_agent(self, host: str, epoch: int) -> bool:
        """Tell whether the agent of a host is heard, in this epoch of the host or a later one."""
        beat = self._beaten.get(host)
        return beat is not None and beat.epoch >= epoch and not self.misses_agent(host)

    def memory_mib(self, host: str) -> int:
        """Return the MiB that all drivers of a host may need together, by its last beat; 0: nobody said."""
        beat = self._beaten.get(host)
        return beat.memory_mib if beat is not None else 0

    def busy_cores(self, host: str) -> float:
        """Return how many processors of a host were busy, by its last beat; 0.0: nobody said."""
        beat = self._beaten.get(host)
        return beat.busy_cores if beat is not None else 0.0

    def misses_agent(self, host: str) -> bool:
        """Tell whether the newest agent of a host was silent for too long, since it was first known of."""
        _, silence = self._agents.get(host, (-1, timedelta(0)))
        return silence >= HEARD_WITHIN
