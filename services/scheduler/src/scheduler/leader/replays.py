"""The replays of one scheduler's host: does what `scheduler.leader.replay_policy` decides.

A replay runs on the host of its dagger, where its secrets and its checkpoints are; where no agent of that
host is heard, on that of the leader. A cordoned host is given no attempt: another one is, that has the same
checkpoint root, or the replay waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator
from datetime import datetime
from functools import partial
from typing import Final

from daggers.v1 import events_pb2

from chassis.logging import logger, unit_of_work
from daggerspec.catalogue import UnresolvedName
from daggerspec.limits import REPLAY_MIB
from fleet import Dagger, Fleet
from fleet.decide.drain import build_cordoned, takes_new
from fleet.decide.observation import Presence
from fleet.decide.placement import explain_unfit
from fleet.fold import quotas
from fleet.fold.quotas import Full, Room
from scheduler.drivers.command import Command, beside
from scheduler.drivers.process_table import Attempt, Drivers
from scheduler.leader.launcher import Launcher, Write
from scheduler.leader.occupancy import Occupancy, for_replay, usual_mib
from scheduler.leader.peers import Peers
from scheduler.leader.replay_policy import (
    Action,
    End,
    ReplayObservation,
    Start,
    is_wanted,
    next_agent_step,
    next_step,
)
from scheduler.threads import to_its_end

STEPS: Final = 4


class Replays:
    """Starts, adopts and ends the attempts of replays, one of a dagger at a time."""

    def __init__(
        self,
        fleet: Fleet,
        drivers: Drivers,
        launcher: Launcher,
        command: Command,
        room: Callable[[], Room],
        clock: Callable[[], datetime],
        peers: Peers,
    ) -> None:
        self._peers = peers
        self._tried: dict[str, int] = {}
        """Newest attempt of each dagger's replay that was begun here."""
        self._fleet, self._drivers, self._launcher = fleet, drivers, launcher
        self._command, self._room, self._now = command, room, clock
        self._ignored_attempts: dict[str, tuple[int, int, int]] = {}

    async def look(self, write: Write, still: Callable[[], None], epoch: int) -> None:
        """Do what is due of each replay, as the leader. Raises: LeadershipLost."""
        alive = self._alive()
        for name in self._names(alive):
            await self._attend(name, alive, write, still, epoch)

    async def act(self, write: Write, *, since: int) -> None:
        """Do, as the agent of this host, what is due of each replay that a leader elsewhere intends here.

        since: sequence before which no intent is this agent's. Raises: LogUnavailable.
        """
        alive, host = self._alive(), self._drivers.host
        for name in self._names(alive):
            replay = self._fleet.daggers[name].replay
            process = replay.process if replay is not None else None
            if name in alive or (process is not None and process.host == host):
                await self._attend_here(name, alive, write, since)

    def _names(self, alive: Collection[str]) -> Iterator[str]:
        """Yield the readable daggers that have a replay, or an attempt on this host, by name."""
        for name in sorted({*self._fleet.replaying, *alive} & self._fleet.daggers.keys()):
            if name not in self._fleet.unreadable_daggers:
                yield name

    async def _attend_here(
        self, name: str, alive: dict[str, list[Attempt]], write: Write, since: int
    ) -> None:
        def decide(dagger: Dagger) -> Action | None:
            leader, host = self._fleet.leader, self._drivers.host
            if leader is None or leader.host == host:
                return None  # one on this very host does it all itself, and may lead since a moment ago
            number = dagger.replay.attempt if dagger.replay is not None else 0
            # What a leader before has intended may have been started by that, on this very host.
            tried = max(since, leader.epoch, self._tried.get(name, 0))
            observation = self._observe(dagger, alive, is_placed=True)
            return next_agent_step(dagger, observation, host=host, is_own=number > tried, now=self._now())

        def start(dagger: Dagger) -> Awaitable[None]:
            assert dagger.replay is not None
            return self._submit(name, dagger.replay.attempt, write, since)

        await self._take_steps(name, alive, write, since, "agent.replay", decide, start)

    async def _submit(self, name: str, number: int, write: Write, since: int) -> None:
        """Start an attempt that a leader elsewhere intended, unless something newer has come meanwhile."""
        if not await self._launcher.confirm_agent(since):
            return
        newest = self._fleet.daggers[name]
        if newest.replay is not None and newest.replay.unanswered and newest.replay.attempt == number:
            await self._begin(newest, number, write)

    def end_orphans(self) -> None:
        """End, as a standby, what the log does not want on this host any more."""
        for attempt in self._drivers.attempts():
            if not is_wanted(self._fleet.daggers.get(attempt.dagger), attempt.replay_id, self._drivers.host):
                self._drivers.kill(attempt.process)

    async def _attend(
        self, name: str, alive: dict[str, list[Attempt]], write: Write, still: Callable[[], None], epoch: int
    ) -> None:
        def decide(dagger: Dagger) -> Action | None:
            if self._is_elsewhere(dagger):
                strays = tuple(attempt.process for attempt in alive.get(name, ()))
                return End(strays) if strays else None
            return next_step(dagger, self._observe(dagger, alive), host=self._drivers.host, now=self._now())

        def start(dagger: Dagger) -> Awaitable[None]:
            return self._start(dagger, write, still)

        await self._take_steps(name, alive, write, epoch, "scheduler.replay", decide, start)

    async def _take_steps(
        self,
        name: str,
        alive: dict[str, list[Attempt]],
        write: Write,
        epoch: int,
        unit: str,
        decide: Callable[[Dagger], Action | None],
        start: Callable[[Dagger], Awaitable[None]],
    ) -> None:
        """Do what is due of a dagger's replay, step after step, while there is something new.

        epoch: of who acts. unit: of work, for logs.
        """
        for _ in range(STEPS):
            dagger, leader = self._fleet.daggers[name], self._fleet.leader
            # What an agent said under a leader that was replaced meanwhile counts only when it says it again.
            tried = leader.epoch if leader is not None else -1, epoch, dagger.sequence
            action = decide(dagger)
            if action is None or self._ignored_attempts.get(name) == tried:
                return
            if isinstance(action, End):
                self._end(name, action)
                return
            with unit_of_work(unit, dagger=name, action=type(action).__name__):
                if isinstance(action, Start):
                    await start(dagger)
                    alive |= self._alive()
                else:
                    await write(dagger, action)
            if self._fleet.daggers[name].sequence == dagger.sequence:
                self._ignored_attempts[name] = tried  # ignored here and now: saying it again would not help
                return

    def _end(self, name: str, action: End) -> None:
        for process in action.processes:
            self._drivers.kill(process)
        logger().info("scheduler.replay_ended", dagger=name, attempts=len(action.processes))

    async def _start(self, dagger: Dagger, write: Write, still: Callable[[], None]) -> None:
        """Intend an attempt; start it here once the log has it, and nobody else leads.

        Raises: LeadershipLost.
        """
        replay = dagger.replay
        assert replay is not None
        host = self._place(dagger)
        if isinstance(host, Full):
            return  # it was cordoned since this was decided
        intent = events_pb2.ReplayStarted(replay_id=replay.id)
        intent.process.host = host
        step = await write(dagger, intent)
        still()
        intended = self._fleet.daggers[dagger.name]
        if not step.applied.changed or intended.replay is None or intended.replay.id != replay.id:
            return
        if intent.process.host == self._drivers.host:  # else its agent does the rest
            await self._begin(intended, step.record.sequence, write)

    async def _begin(self, intended: Dagger, number: int, write: Write) -> None:
        """Start an attempt that stands in the log, and say what came of it."""
        replay = intended.replay
        assert replay is not None
        self._tried[intended.name] = number
        try:
            job = self._launcher.job(intended, number, self._drivers.attempt_dir(number))
            job.spec.driver_memory_mib = self._room().driver_memory_mib  # as much as is counted for it
            words, environment = self._command(job, self._master(intended))
            words = [*words, "--sequence", str(replay.sequence), "--created", str(intended.create_sequence)]
            start = partial(self._drivers.start_attempt, job, replay.request, words, environment)
            process = await to_its_end(start)
        except UnresolvedName as error:
            await write(intended, events_pb2.ReplayFinished(replay_id=replay.id, error=_user_error(error)))
        except OSError as error:
            await write(intended, events_pb2.ReplayExited(replay_id=replay.id, error=_os_error(error)))
        else:
            await write(intended, events_pb2.ReplayStarted(replay_id=replay.id, process=process))

    def _is_elsewhere(self, dagger: Dagger) -> bool:
        """Tell whether the agent of another host looks after the newest attempt of a dagger's replay."""
        replay = dagger.replay
        return (
            replay is not None
            and replay.process is not None
            and self._peers.looks_after(replay.process.host, replay.attempt)
        )

    def _place(self, dagger: Dagger) -> str | Full:
        """Return the host of the next attempt: that of its dagger where an agent takes it, else this one;
        where that is cordoned another one that has what the dagger needs, or why there is none.
        """
        first, *others = hosts = self._peers.list_replay_hosts(self._fleet.host_of(dagger))
        if takes_new(self._fleet, first):
            return first
        free = [host for host in others if takes_new(self._fleet, host)]
        for host in free:
            candidate = self._peers.candidate(host, self._room())
            if not explain_unfit(self._fleet, dagger, candidate):
                return host
        return build_cordoned(host for host in hosts if host not in free)

    def _master(self, dagger: Dagger) -> str:
        """Return the master where the query of its replay is computed; empty where that computes none."""
        if dagger.replay is None or not dagger.replay.request.computes:
            return ""
        cluster = self._fleet.clusters.get(dagger.spec.cluster)
        return beside(cluster.value.spark_master if cluster else "")

    def _observe(
        self, dagger: Dagger, alive: dict[str, list[Attempt]], *, is_placed: bool = False
    ) -> ReplayObservation:
        """Observe the attempts of a dagger's replay. is_placed: whether this host was chosen for the next."""
        own = alive.get(dagger.name, [])
        replay = dagger.replay
        if own:
            id_ = replay.id if replay is not None else ""
            return ReplayObservation(
                alive=tuple(attempt.process for attempt in own if attempt.replay_id == id_),
                strays=tuple(attempt.process for attempt in own if attempt.replay_id != id_),
            )
        if replay is None:
            return ReplayObservation()
        process = replay.process
        if process is None or process.host != self._drivers.host or not process.pid:
            running = [attempt.computes for some in alive.values() for attempt in some]
            return ReplayObservation(full=self._full(dagger, Occupancy.of(running), is_placed=is_placed))
        if self._drivers.presence(process) is Presence.ALIVE:
            return ReplayObservation(
                alive=(process,)
            )  # it has just been started, and says itself later who it is
        left = self._drivers.exit(process)
        return ReplayObservation(
            left=left, outcomes=self._drivers.outcomes(process) if left.code == 0 else {}
        )

    def _full(self, dagger: Dagger, running: Occupancy, *, is_placed: bool) -> Full | None:
        """Return why one more does not fit. The first one does, unless it has Spark: a host keeps that much
        free.
        """
        host = self._drivers.host if is_placed else self._place(dagger)
        if isinstance(host, Full):
            return host
        computes = dagger.replay is not None and dagger.replay.request.computes
        if not (running.replays or computes):
            return None
        room = self._room()
        need = usual_mib(room) if computes else REPLAY_MIB
        if host == self._drivers.host:
            room = for_replay(room, running)
        elif computes:
            room = for_replay(self._peers.room(host, room.driver_memory_mib), Occupancy())
        else:
            return None
        return quotas.host_full(self._fleet.drivers.on(host).usage, need, room)

    def _alive(self) -> dict[str, list[Attempt]]:
        """Return the attempts that live, the newest of each dagger last."""
        alive: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in self._drivers.attempts():
            alive[attempt.dagger].append(attempt)
        return dict(alive)


def _user_error(error: UnresolvedName) -> events_pb2.DaggerError:
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_USER, reason=error.reason, detail=error.detail
    )


def _os_error(error: OSError) -> events_pb2.DaggerError:
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_INTERNAL,
        reason="LAUNCH_FAILED",
        detail=f"its process could not be started: {error.strerror}",
        retryable=True,
    )
