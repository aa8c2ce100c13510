"""The scheduler's loop: fold, ask for the next action, append, act, append.

What is decided is decided in `fleet`, which is pure; every record, heartbeat, exit and tick asks it
again, and so does a restart. One coroutine does all the deciding and acting, one thing at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2

from chassis.logging import logger, note, unit_of_work
from daggerspec.limits import DEFAULT_DRIVER_MEMORY_MIB
from election import Beats, Election, ElectionEvents, Holder, LeadershipLost, proven_dead
from eventlog import Draft, Log, LogUnavailable
from eventlog.fold import Step
from eventlog.follower import Follower
from fleet import ApplyResult, Dagger, Fleet
from fleet.decide import shadowing
from fleet.decide.observation import Observation, Policy
from fleet.decide.reconcile import Drain, Kill, Launch, next_action
from fleet.decide.rounds import Rounds
from fleet.decide.shadowing import EndShadow, LaunchShadow
from fleet.decide.starts import wants_replacement
from fleet.fold import quotas
from fleet.fold.facts import FACTS, About
from fleet.fold.fleet import is_of_dagger
from fleet.fold.hosts import host_subject
from fleet.fold.phases import RUNNING
from fleet.fold.quotas import Room
from fleet.fold.resolve import find_references
from scheduler.clock import now as wall_clock
from scheduler.drivers import retention
from scheduler.drivers.command import Command
from scheduler.drivers.heartbeat_files import HeartbeatFiles
from scheduler.drivers.process_table import Drivers
from scheduler.drivers.process_watcher import ProcessWatcher
from scheduler.drivers.secret_places import SecretRule
from scheduler.drivers.spares import Spares
from scheduler.drivers.sweep import DeleteLogs, Sweeper, read_baseline
from scheduler.leader.agent import Agent
from scheduler.leader.capacity import Load
from scheduler.leader.drains import Drains
from scheduler.leader.host_watch import HostWatch
from scheduler.leader.inventory import Inventory
from scheduler.leader.launcher import Launcher
from scheduler.leader.neighbours import Neighbours
from scheduler.leader.observer import Observer
from scheduler.leader.occupancy import Occupancy, for_driver, for_spare
from scheduler.leader.peers import Peers
from scheduler.leader.replays import Replays
from scheduler.leader.sharing import Sharing
from scheduler.leader.silent_hosts import SilentHosts
from scheduler.leader.starts import Starts
from scheduler.threads import to_its_end

# Steps taken for one dagger before the others have their turn.
STEPS: Final = 16
_AT_ONCE: Final = 100
"""Daggers that are looked at before all else that this process does has its turn."""
LEADER_TIMEOUT: Final = timedelta(seconds=10)
"""A leader whose beat is missing for this long is replaced, unless a setting says another time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a scheduler."""

    scheduler_id: str
    max_drivers: int | None
    """Drivers that may run at once; None: as many as have memory."""
    memory_mib: int | None = None
    """MiB that they may need together; None: it is not counted."""
    leader_timeout: timedelta = LEADER_TIMEOUT
    driver_memory_mib: int = DEFAULT_DRIVER_MEMORY_MIB
    """Heap of a driver whose dagger does not say, in MiB."""
    batches: spec_pb2.BatchRule = field(default_factory=spec_pb2.BatchRule)
    """Rule that says when batches of its drivers are due."""
    secrets: SecretRule = field(default_factory=SecretRule)
    """Rule about secrets that specifications find by themselves."""
    egress: spec_pb2.Egress = field(default_factory=spec_pb2.Egress)
    """Limits on the addresses of its drivers' sinks."""
    has_reader: bool = True
    """True when the drivers of this host have the C reader."""
    spare: bool = False
    """True when it keeps a driver that waits for a launch."""
    cutover: bool = False
    """True when it replaces a driver by one that begins beside it, where an edit allows that."""
    local_checkpoints: bool = False
    """True when this host may be one of several that have no checkpoint root in common."""
    host_beats: bool = False
    """True when heartbeats of drivers here travel with the beat of their host."""
    tick: timedelta = timedelta(milliseconds=500)
    """Time between two looks at everything."""
    sweep: timedelta = timedelta(seconds=5)
    """Time between two looks for orphans and leftovers."""


def election_events(fleet: Fleet, room: Callable[[], Room]) -> ElectionEvents:
    """Build the office that schedulers are elected to. room: returns what the host has for drivers now."""

    def holder() -> Holder | None:
        leader = fleet.leader
        return None if leader is None else Holder(leader.epoch, leader.scheduler_id)

    def beat(epoch: int, me: str) -> telemetry_pb2.SchedulerBeat:
        running = fleet.drivers.on(fleet.leader.host if fleet.leader else "").usage
        return telemetry_pb2.SchedulerBeat(
            epoch=epoch, scheduler_id=me, room=quotas.room_left(running, room())
        )

    return ElectionEvents(
        "scheduler",
        claim=lambda me, host: events_pb2.SchedulerStarted(scheduler_id=me, host=host),
        beat=beat,
        holder=holder,
    )


async def _delete_none(_: Callable[[str], bool], __: Callable[[], Awaitable[None]]) -> None:
    """Delete no log: there are none."""


class Scheduler:
    """One scheduler: stands by, leads, stands by again.

    `command` builds a driver's command line, `platform` is Kafka for heartbeats and quarantine; `state_dir`
    holds what was seen of the log, and the checkpoints unless these have a root elsewhere. `set_aside_ends`:
    the offset behind all that is set aside, by partition; raises LogUnavailable. `clock` is this instant,
    UTC; `dead` proves the death of a scheduler by its identity. `appended` is told the message of each fact
    that was appended. `previews`: how many processes preview on this host. `memory_mib`: what drivers may
    need together now, in place of what the options say. `overload` says in one clause that this host has too
    much to do; `busy_cores`: how many of its processors are busy. `reaches_root`: whether a checkpoint root
    that all hosts have answers; may block. `delete_logs`: deletes what waits for sinks of deleted daggers.
    """

    def __init__(
        self,
        control: Log,
        beats: Beats,
        drivers: Drivers,
        *,
        command: Command,
        platform: spec_pb2.KafkaAddress,
        state_dir: Path,
        checkpoint_root: str = "",
        set_aside_ends: Callable[[], Awaitable[Mapping[int, int]]],
        policy: Policy,
        options: Options,
        clock: Callable[[], datetime] = wall_clock,
        dead: Callable[[str], bool] = proven_dead,
        appended: Callable[[str], None] = lambda _: None,
        previews: Callable[[], int] = lambda: 0,
        memory_mib: Callable[[], int] | None = None,
        overload: Callable[[], str] = str,
        busy_cores: Callable[[], float] = float,
        reaches_root: Callable[[], bool] | None = None,
        delete_logs: DeleteLogs = _delete_none,
    ) -> None:
        self._now = clock
        self._appended = appended
        self._beats = beats
        self._drivers = drivers
        self._set_aside_ends = set_aside_ends
        self._policy = policy
        self._options = options
        self._fleet = Fleet()
        self._follower = Follower(
            control, self._fleet, baseline=read_baseline(state_dir), on_step=self._on_step
        )

        def room() -> Room:
            return Room(
                drivers=options.max_drivers,
                memory_mib=options.memory_mib if memory_mib is None else memory_mib(),
                driver_memory_mib=options.driver_memory_mib,
            )

        def count_occupancy() -> Occupancy:
            if options.memory_mib is None and memory_mib is None:
                return Occupancy()  # nobody counts it then
            return Occupancy.of((attempt.computes for attempt in drivers.attempts()), previews())

        self._election = Election(
            election_events(self._fleet, lambda: for_driver(room(), count_occupancy())),
            self._follower,
            beats,
            id=options.scheduler_id,
            host=drivers.host,
            patience=options.leader_timeout,
            clock=clock,
            dead=dead,
        )
        self.checkpoints = checkpoint_root or str(state_dir / "checkpoints")
        """The root of all daggers' checkpoints."""
        self._sweeper = Sweeper(
            self._follower,
            self._fleet,
            self._election,
            drivers,
            state_dir,
            self.checkpoints,
            clock,
            delete_logs,
        )
        self._spares = Spares(
            self._fleet,
            drivers,
            command,
            room,
            clock,
            on=options.spare,
            left=lambda: for_spare(room(), count_occupancy()),
        )
        inventory = Inventory(self._fleet, has_user=drivers.runs_as_another, reader=options.has_reader)
        self._sharing = Sharing(self._fleet, drivers, options.driver_memory_mib, clock)
        self._launcher = Launcher(
            self._follower,
            self._fleet,
            drivers,
            self._spares,
            command=command,
            platform=platform,
            checkpoints=self.checkpoints,
            shared=bool(checkpoint_root),
            driver_memory_mib=options.driver_memory_mib,
            batches=options.batches,
            secrets=options.secrets,
            egress=options.egress,
            inventory=inventory,
            sharing=self._sharing,
        )
        self._watch = HostWatch(clock)
        peers = Peers(self._fleet, self._watch, host=drivers.host, shared=bool(checkpoint_root))
        self._replays = Replays(self._fleet, drivers, self._launcher, command, room, clock, peers)
        self._processes = ProcessWatcher(self._look_at)
        self._observer = Observer(
            self._fleet,
            drivers,
            self._processes,
            room,
            clock,
            count_occupancy,
            cutover=options.cutover,
            overload=overload,
            peers=peers,
            shared=bool(checkpoint_root),
            sharing=self._sharing,
        )
        self._agent = Agent(
            self._fleet,
            self._follower,
            drivers,
            self._observer,
            self._launcher,
            self._watch,
            beats,
            scheduler_id=options.scheduler_id,
            source=self._election.source,
            clock=clock,
            dead=dead,
            appended=appended,
            ended=self._sweeper.note_end,
            policy=policy,
            tell=self._tell,
            replays=self._replays,
            measure=lambda: Load(
                memory_mib=for_driver(room(), count_occupancy()).memory_mib or 0, busy_cores=busy_cores()
            ),
            inventory=inventory,
            files=HeartbeatFiles() if options.host_beats else None,
        )
        self._silent_hosts = SilentHosts(
            self._fleet,
            self._follower,
            self._election,
            self._watch,
            host=drivers.host,
            shared=bool(checkpoint_root),
            reaches_root=reaches_root or partial(retention.is_there, self.checkpoints),
            clock=clock,
        )
        self._drains = Drains(self._fleet, self._observer, self._write)
        self._starts = Starts(self._fleet, clock)
        self._neighbours = Neighbours(
            self._fleet,
            host=drivers.host,
            scheduler_id=options.scheduler_id,
            shared=bool(checkpoint_root),
            local=options.local_checkpoints,
        )
        self._rounds = Rounds(options.tick)
        self._wake = asyncio.Event()
        self._ignored_attempts: dict[str, tuple[int, int, type]] = {}

    @property
    def leads(self) -> bool:
        """True when its claim is the newest, as far as it has read."""
        return self._election.leads

    @property
    def held_starts(self) -> int:
        """Number of starts that wait because their host has as many as cores."""
        return self._starts.waiting if self.leads else 0

    @property
    def fleet(self) -> Fleet:
        """The fold of the control topic."""
        return self._fleet

    @property
    def follower(self) -> Follower[ApplyResult]:
        """Follower of the control topic."""
        return self._follower

    async def run(
        self,
        serving: events_pb2.HostServing | None = None,
        registered: events_pb2.HostRegistered | None = None,
    ) -> None:
        """Serve until cancelled; drivers go on. `serving` says where the logs and rows of this host are read,
        `registered` what it is.

        Raises, in an ExceptionGroup: LogDamaged, NoSharedCheckpoints.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follower.run())
                tasks.create_task(self._listen())
                tasks.create_task(self._serve(serving, registered))
                tasks.create_task(self._agent.keep_beating())
        finally:
            self._processes.close()

    async def _serve(
        self, serving: events_pb2.HostServing | None, registered: events_pb2.HostRegistered | None
    ) -> None:
        await self._follower.catch_up()
        await self._neighbours.wait()
        if serving is not None:
            await self._announce(serving)
        if registered is not None:
            await self._agent.register(registered)
        while True:
            logger().info("scheduler.standby_begun", sequence=self._fleet.sequence)
            next_sweep = self._now()
            self._rounds.begin(self._list_own, lambda: self._list_own() & self._fleet.drivers.starting.keys())
            while not self._election.may_claim():
                self._watch.advance(self._fleet.standings)
                await self._agent.keep_registered()
                await self._agent.look(self._rounds.take(self._now()))
                if self._now() >= next_sweep:
                    next_sweep = self._now() + self._options.sweep
                    await self._sweeper.look()
                    self._replays.end_orphans()
                    self._tell_all()
                await self._pause()
            with suppress(LeadershipLost):
                await self._election.claim()
                self._drivers.write_missing()
                logger().info("scheduler.leadership_gained", epoch=self._election.epoch)
                beating = asyncio.create_task(self._election.keep_beating())
                try:
                    await self._lead()
                except LeadershipLost:
                    self._spares.end()
                    raise
                finally:
                    beating.cancel()
            self._election.resign()

    async def _announce(self, event: events_pb2.HostServing) -> None:
        """Announce where this host is read, whoever leads; an id counts once."""
        id_, subject = f"HostServing/{event.scheduler_id}", host_subject(event.host)
        await self._follower.append(Draft(id_, self._election.source, subject, self._now(), event))

    async def _lead(self) -> None:
        """Reconcile every dagger, for ever. Raises: LeadershipLost."""
        next_sweep = passed = self._now()
        self._rounds.begin(self._fleet.living_names, lambda: self._fleet.drivers.starting)
        while True:
            started = self._now()
            if started - passed > self._options.leader_timeout / 2:
                await self._follower.catch_up()  # we were paused: somebody may have taken over
            self._election.ensure_leading()
            # A clock that was ahead for a while had it due when it is that late again.
            next_sweep = min(next_sweep, started + self._options.sweep)
            for number, name in enumerate(self._starts.order(self._rounds.take(started)), 1):
                await self._attend(name)
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # so that beats are sent, however many are due
            self._watch.advance(self._fleet.standings)
            await self._agent.keep_registered()
            await self._silent_hosts.look()
            await self._drains.look()
            await self._sharing.look(self._write, self._observer.has_room)
            await self._replays.look(self._write, self._election.ensure_leading, self._election.epoch)
            await self._spares.look()
            if started >= next_sweep:
                next_sweep = started + self._options.sweep
                await self._sweeper.sweep()
                await self._spares.clear()
                await to_its_end(self._drivers.clear_attempts)
            passed = self._now()
            await self._pause()

    def _list_own(self) -> Set[str]:
        """List the daggers that have drivers on this host."""
        return self._fleet.drivers.on(self._drivers.host).daggers.keys()

    async def _pause(self) -> None:
        """Wait until something happens, or for the next tick."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.tick.total_seconds()):
                await self._wake.wait()
        self._wake.clear()

    # ---- What happens --------------------------------------------------------------------------------------

    def _look_at(self, name: str) -> None:
        self._rounds.note(name)
        self._wake.set()

    def _on_step(self, step: Step[ApplyResult]) -> None:
        record, applied = step.record, step.applied
        if isinstance(record.message, events_pb2.SchedulerStarted):
            self._election.note_claim()
        if record.message is None:
            logger().warning(
                "scheduler.record_ignored", sequence=record.sequence, type=record.type, subject=record.subject
            )
        if is_of_dagger(record.type):
            self._rounds.note(applied.subject)
        else:  # of a host, if it is one
            for name in self._fleet.drivers.on(applied.subject).daggers:
                self._rounds.note(name)
        self._wake.set()

    async def _listen(self) -> None:
        async for record in self._beats.follow():
            match record.message:
                case telemetry_pb2.SchedulerBeat() as beat:
                    self._election.note_beat(beat.epoch)
                    self._watch.note_scheduler()
                case telemetry_pb2.HostBeat() as sign:
                    self._watch.note_agent(sign)
                    self._neighbours.note(sign)
                case telemetry_pb2.Heartbeat() as heartbeat:
                    self._watch.note_driver(heartbeat.host)
                    if self._observer.note_heartbeat(heartbeat):
                        self._note_driver(heartbeat.dagger)

    def _note_driver(self, name: str) -> None:
        """Look at a dagger whose driver was heard; at the next tick where it just goes on running."""
        dagger = self._fleet.daggers.get(name)
        if dagger is None or dagger.phase != RUNNING:
            self._look_at(name)
        else:
            self._rounds.note(name)

    # ---- Reconciling ---------------------------------------------------------------------------------------

    async def _attend(self, name: str) -> None:
        """Reconcile one dagger: act until there is nothing to do, or only time can tell."""
        fleet = self._fleet
        if name in fleet.unreadable_daggers:
            return
        for _ in range(STEPS):
            dagger = fleet.daggers.get(name)
            if dagger is None:
                return
            epoch = self._election.epoch
            action = next_action(
                dagger, now=self._now(), epoch=epoch, observation=self._observe(dagger), policy=self._policy
            )
            attempt = epoch, dagger.sequence, type(action)
            if action is None or self._ignored_attempts.get(name) == attempt:
                self._tell(dagger)
                return
            if isinstance(action, Drain | Kill | EndShadow):
                self._end(dagger, action)
                self._rounds.note_again(name)
                return
            if isinstance(action, Launch) and not self._starts.admits(
                dagger, action.host or self._drivers.host
            ):
                return
            with unit_of_work(
                "scheduler.act", dagger=name, generation=dagger.generation, action=type(action).__name__
            ):
                if isinstance(action, Launch):
                    ensure = self._election.ensure_leading
                    await self._launcher.launch(name, self._write, ensure, action.host)
                elif isinstance(action, LaunchShadow):
                    await self._launcher.launch_shadow(name, self._write, self._election.ensure_leading)
                elif isinstance(action, events_pb2.QuarantineReplayRequested):
                    if not await self._ask(action):
                        return
                else:
                    await self._write(dagger, action)
            if fleet.daggers[name].sequence == dagger.sequence:
                self._ignored_attempts[name] = attempt  # ignored here and now: saying it again would not help
                return

    def _observe(self, dagger: Dagger) -> Observation:
        """Observe a dagger, and whether its start has its turn where it is to be started anew: on the host
        where it runs until then, and on that of its successor.
        """
        observation = self._observer.observe(dagger)
        if not wants_replacement(dagger):
            return observation
        hosts = dict.fromkeys((self._fleet.host_of(dagger), self._observer.find_next_host(dagger)))
        has_turn = all(self._starts.admits(dagger, host) for host in hosts)
        return observation if has_turn else replace(observation, has_turn=False)

    def _tell(self, dagger: Dagger) -> None:
        """Tell the drivers of this host what the log has for them, each launch anew."""
        try:
            if run_dir := self._run_dir(dagger):
                if dagger.refusals_until is not None:
                    self._drivers.allow_refusals(run_dir, dagger.refusals_until)
                self._drivers.pause_sinks(run_dir, dagger.paused_sinks)
                tables = find_references(self._fleet, dagger.spec) if dagger.spec.alerts else ()
                self._drivers.give_rules(run_dir, dagger.version, dagger.spec.alerts, tables)
            for driver, file, text in shadowing.cutover_files(dagger):
                if driver.host == self._drivers.host and driver.run_dir:
                    self._drivers.tell(driver.run_dir, file, text)
        except OSError as error:  # the next look tries it again
            logger().warning("scheduler.orders_delayed", dagger=dagger.name, detail=str(error))

    def _tell_all(self) -> None:
        """Tell the drivers of this host, as a standby: a leader on another host cannot reach them."""
        leader = self._fleet.leader
        if leader is not None and leader.host != self._drivers.host:
            for name in sorted(self._fleet.daggers):
                self._tell(self._fleet.daggers[name])

    def _run_dir(self, dagger: Dagger) -> str:
        """Return the directory of a dagger's driver on this host; empty where it runs elsewhere.

        A leader on another host adopts a driver by its heartbeats alone: its directory is not in the log.
        """
        driver = dagger.driver
        if driver is None or driver.host != self._drivers.host:
            return ""
        return driver.run_dir or self._drivers.build_lost_handle(dagger.name, dagger.generation).run_dir

    def _end(self, dagger: Dagger, action: Drain | Kill | EndShadow) -> None:
        """End a driver; called again until it is gone."""
        if isinstance(action, EndShadow):
            driver = dagger.shadow.driver if dagger.shadow else None
        else:
            driver = dagger.driver
        if driver is None:
            return
        if not isinstance(action, Drain):
            self._drivers.kill(driver)
        elif not self._drivers.drain(driver):
            return
        logger().info(
            "scheduler.driver_ended",
            dagger=dagger.name,
            generation=dagger.generation,
            action=type(action).__name__,
        )

    async def _ask(self, request: events_pb2.QuarantineReplayRequested) -> bool:
        """Request a replay of all that is set aside by now; tell whether that was possible.

        Raises: LeadershipLost.
        """
        try:
            request.up_to.update(await self._set_aside_ends())
        except LogUnavailable as error:  # the next look tries it again
            logger().warning("scheduler.replay_delayed", dagger=request.name, detail=str(error))
            return False
        self._election.ensure_leading()
        draft = Draft(request.replay_id, self._election.source, request.name, self._now(), request)
        step = await self._follower.append(draft)
        note(replay=request.replay_id, sequence=step.record.sequence, ignored=step.applied.refused)
        return True

    async def _write(self, dagger: Dagger, fact: Any) -> Step[ApplyResult]:
        """Append a fact about a dagger in the state it is in, and read it back. Raises: LeadershipLost."""
        self._election.ensure_leading()
        fact.meta.epoch = self._election.epoch
        fact.meta.name = dagger.name
        # The same for the same fact about the same state: repeated after a failure, it counts once.
        id_ = f"{type(fact).__name__}/{dagger.name}/{self._election.epoch}/{dagger.sequence}"
        match FACTS[type(fact)].about:
            case About.NEW | About.BESIDE:
                fact.submission_id = id_
            case About.SHADOW:
                fact.meta.generation = dagger.shadow.generation if dagger.shadow else 0
            case about if about is not About.REPLAY:
                fact.meta.generation = dagger.generation
        draft = Draft(id_, self._election.source, dagger.name, self._now(), fact)
        step = await self._follower.append(draft)
        self._appended(type(fact).__name__)
        note(sequence=step.record.sequence, ignored=step.applied.refused)
        if isinstance(fact, events_pb2.Exited | events_pb2.ShadowEnded | events_pb2.Deleted):
            self._sweeper.note_end()
        return step
