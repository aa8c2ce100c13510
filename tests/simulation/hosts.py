"""Hosts and the drivers on them: they die, hang, lie, come back, tell late, and lose their network or clock.

The lease is the runtime's own; only where it is kept is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from daggers.v1 import events_pb2, rules_pb2, spec_pb2, telemetry_pb2
from tests.simulation.replays import DB, Quarantine, SimulatedAttempt
from tests.simulation.windows import Windows, end_us, window_of
from tests.simulation.witness import Violation
from tests.simulation.world import World

from chassis.drivers import Identified
from daggerspec import exits
from daggerspec.rundir import BOUNDARY, HANDED, PREDECESSOR_ENDED, REPLAYS, DriverIdentity
from daggerspec.shadow import ShadowState
from fleet.decide.observation import Presence
from fleet.fold.hosts import AGENT
from runtime.errors import FencedError, JobError
from runtime.state.lease import Lease
from scheduler.drivers.exit_classification import classify_exit, classify_loss
from scheduler.drivers.process_table import Attempt, as_handle

BEAT_S = 5.0
BATCH_S = 2.0
SPARE_S = 0.5
PATIENCE_S = 20.0
"""Time that a launch has to end before the process that it shares is killed."""


@dataclass(eq=False)
class Host:
    """A machine. `cut`: it reaches nobody, and nobody reaches it."""

    name: str
    cut: bool = False
    split: bool = False
    """Kafka is out of reach; leases and sinks are not, so its drivers write on."""
    cut_at: float = 0.0
    """Since when it is cut or split, in seconds of the loop."""
    memory_mib: int = 24_000
    """Memory for drivers: the more, the more launches it gets."""
    zone: str = ""
    """Label `zone` that its schedulers register."""
    is_full: bool = False
    """True while something else has all its memory."""
    cores: int = 2
    """Number of starts that it has at once."""
    start_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each start of a dagger takes, by name; that of any other takes a few."""
    boots: int = 1
    """Number of boots."""
    agent: int = AGENT
    """Level of its schedulers' agents, as they say it."""
    gone: bool = False
    """For good: nothing of it will ever run again."""
    drivers: dict[tuple[str, int], SimulatedDriver] = field(default_factory=dict)
    """Every launch there was, by dagger and generation."""
    spares: dict[str, SimulatedSpare] = field(default_factory=dict)
    """Every driver that has no launch, by its directory."""
    attempts: dict[int, SimulatedAttempt] = field(default_factory=dict)
    """Every attempt of a replay, by number."""
    allowed: dict[str, datetime] = field(default_factory=dict)
    """Until when the sinks of a launch may refuse what they like, as it was told last; by its directory."""
    told: dict[tuple[str, str], str] = field(default_factory=dict)
    """What launches were told of a cutover, by directory and file."""
    started: int = 0
    """How many processes were started."""

    @property
    def free_mib(self) -> int:
        """Memory that all its drivers may need together now."""
        return 1 if self.is_full else self.memory_mib

    @property
    def boot_id(self) -> str:
        """Tells one boot from another."""
        return f"boot-{self.boots}"

    def process(self, driver: Identified) -> list[SimulatedDriver]:
        """List the launches that run in the process of a driver."""
        return [each for each in self.drivers.values() if each.alive and each.identity.pid == driver.pid]

    def end_process(self, culprit: SimulatedDriver, code: int | None, *, computes: bool) -> None:
        """Have a process die with all its launches. culprit: who was computing then, if it `computes`."""
        members = self.process(culprit.identity)
        for member in members:
            member.end(code)
            if len(members) > 1:
                step = "batch 7" if computes and member is culprit else None
                member.lost = len(members) - 1, step

    def end(self) -> None:
        """Nothing that runs here goes on."""
        for running in (*self.drivers.values(), *self.spares.values(), *self.attempts.values()):
            running.end(None)


class Sinks:
    """Where drivers write, and the leases that guard it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.quarantine, self.windows = Quarantine(world), Windows(world)
        self._leases: dict[str, SimulatedStore] = {}
        self._wrote: dict[str, SimulatedDriver] = {}
        self.batches = 0

    def lease(self, name: str) -> SimulatedStore:
        """Where the lease of a dagger is kept."""
        return self._leases.setdefault(name, SimulatedStore(self._world))

    def write(self, driver: SimulatedDriver) -> None:
        """A driver commits a batch. Raises: Violation."""
        before = self._wrote.get(driver.name)
        if before is not None and before is not driver and before.generation >= driver.generation:
            raise Violation(
                f"generation {driver.generation} of {driver.name} on {driver.host.name} writes after"
                f" generation {before.generation} on {before.host.name} did"
            )
        self._wrote[driver.name] = driver
        self.batches += 1
        driver.write_windows()
        driver.takes = not self.quarantine.away
        if driver.takes:
            driver.skips = False
        elif self._world.random.random() < 0.7:  # else its batch has no rows for the sink
            driver.outages += not driver.skips
            driver.skips = True
            self.quarantine.skip(driver.name, driver.generation, driver.outages)
        if self._world.chance(0.2, "row refused"):
            self.quarantine.set_aside(driver.name, driver.generation)


class SimulatedStore:
    """A shared store that is away at times, as `runtime.state.store.Store`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held = 0

    def read(self) -> int:
        """As Store's. Raises: OSError."""
        if self._world.chance(0.005, "lease store away"):
            raise OSError("the store does not answer")
        return self._held

    def take(self, generation: int) -> int:
        """As Store's. Raises: OSError."""
        self._held = max(self.read(), generation)
        return self._held


class SimulatedDriver:
    """A driver: takes the lease of its dagger, asks for it before every write, tells of itself every 5 s."""

    def __init__(
        self,
        world: World,
        sinks: Sinks,
        host: Host,
        identity: DriverIdentity,
        job: spec_pb2.JobSpec,
    ) -> None:
        self.host, self.identity = host, identity
        self.name, self.generation = identity.dagger, identity.generation
        self.state = ShadowState() if job.HasField("shadow") else None
        """What it says of itself as a shadow; None of one that begins as the driver."""
        self._checkpoints = job.checkpoint_root
        self.alive, self.drained, self.code = True, False, None
        self.takes = self.skips = False
        """Whether its sink took the last batch; whether rows were set aside since it last did."""
        self.outages = 0
        """How often that began."""
        self._world, self._sinks = world, sinks
        self._lease = Lease(sinks.lease(self.name), self.generation, world.loop.time)
        self._taken = False
        self._hangs_until = self._silent_until = 0.0
        self._lies = False
        """While it hangs it tells that all is well."""
        self._clock = timedelta()
        """How far its clock is off."""
        self._progress = world.now()
        self._began = False
        """Of what was a shadow: whether it has written anything."""
        self.mute = world.chance(0.02, "driver mute")
        """It hangs from its birth, and never says anything."""
        self._caught_up_at = world.loop.time() + world.random.uniform(2, 20)
        """When a shadow has read as far as the driver beside it."""
        if self.mute:
            return
        few_s = world.random.uniform(1, 4)
        world.later(host.start_s.get(self.name, few_s), self._batch)
        world.later(world.random.uniform(1, 4), self._beat)
        if self.state is not None:
            world.later(world.random.uniform(1, 4), self._shadow)

    @property
    def writes(self) -> bool:
        """Whether it is no shadow any more, or never was one."""
        return self.state is None or self.state.has_taken_over

    code: int | None
    """Its exit code once it ended; None when it left none."""
    lost: tuple[int, str | None] | None = None
    """Of one that died with its process: with how many others, and what it was computing."""

    def end(self, code: int | None) -> None:
        """Exit, or be killed."""
        if self.alive:
            self.alive, self.code = False, code

    def _batch(self) -> None:
        world = self._world
        if not self.alive:
            return
        world.later(BATCH_S, self._batch)
        if self.host.cut or world.loop.time() < self._hangs_until:
            return
        if world.chance(0.004, "driver hung"):
            self._hangs_until = world.loop.time() + world.random.uniform(5, 90)
            self._lies = world.chance(0.5, "driver lied")
        elif world.chance(0.004, "driver silent"):
            self._silent_until = world.loop.time() + world.random.uniform(20, 120)
        elif world.chance(0.004, "driver's clock jumped"):
            self._clock = timedelta(seconds=world.random.uniform(-4000, 4000))
        elif world.chance(0.006, "driver died"):
            self.end(world.random.choice([-9, 69, 70, 64, None]))
        elif len(self.host.process(self.identity)) > 1 and world.chance(0.02, "process died"):
            computes = world.random.random() < 0.7
            self.host.end_process(self, world.random.choice([-9, 3, None]), computes=computes)
        else:
            self._commit()

    def _commit(self) -> None:
        if not self.writes:
            return
        try:
            if not self._taken:
                self._lease.take()
                self._taken = True
            elif not self._lease.check():  # as `confirm`: nothing is written before it is sure
                return
        except FencedError:
            self.end(exits.FENCED)
        except JobError:
            self.end(exits.EXTERNAL)
        else:
            self._sinks.write(self)
            self._progress = self._world.now()
            if self._is_over():
                self.end(0)

    # ---- Windows, and what a shadow does -------------------------------------------------------------------

    def write_windows(self) -> None:
        """Write what has ended, up to the boundary where there is one. Raises: Violation."""
        windows, last = self._sinks.windows, self._boundary()
        end = windows.head if last is None else min(windows.head, last)
        begin = windows.of(self._checkpoints).written + 1
        if self.state is not None:  # what it let go of it has no more, and behind what it was told it begins
            begin = max(begin if self._began else window_of(int(self._told_of(HANDED) or 0)) + 1, 1)
            begin = max(begin, window_of(self.state.closed) + 1)
            self._began = True
        for window in range(begin, end + 1):
            windows.write(self._checkpoints, window, f"generation {self.generation} of {self.name}")

    def _is_over(self) -> bool:
        """Whether it has written all up to its boundary."""
        last = self._boundary()
        return last is not None and self._sinks.windows.of(self._checkpoints).written >= last

    def _boundary(self) -> int | None:
        """The last window that it writes; None while there is no such thing."""
        told = self._told_of(BOUNDARY)
        return None if told is None else window_of(int(told))

    def _told_of(self, file: str) -> str | None:
        return self.host.told.get((self.identity.run_dir, file))

    def _shadow(self) -> None:
        """What a shadow looks at, some times a second; it lets go of nothing that is not written."""
        world, state = self._world, self.state
        if not self.alive or state is None or state.has_taken_over:
            return
        world.later(0.5, self._shadow)
        if self.host.cut or world.loop.time() < self._hangs_until or world.chance(0.01, "shadow's look"):
            return
        windows = self._sinks.windows
        final = self._told_of(PREDECESSOR_ENDED) is not None
        written = windows.of(self._checkpoints).written
        caught_up = world.loop.time() >= self._caught_up_at
        closed = window_of(state.closed)
        if caught_up and written > closed:
            closed = world.random.randint(closed, written)
        self.state = ShadowState(
            caught_up=caught_up,
            written=end_us(written),
            closed=end_us(closed),
            next_end=end_us(max(written, windows.head) + 1),
            final=final,
            has_taken_over=self._told_of(HANDED) is not None,
        )

    def _beat(self) -> None:
        world = self._world
        if not self.alive:
            return
        world.later(BEAT_S, self._beat)
        if not self.writes or self.host.cut or self.host.split or world.loop.time() < self._silent_until:
            return
        if world.chance(0.03, "heartbeat lost"):
            return
        beat = self._told()
        draft = world.draft("/runtime", self.name, beat)
        value = beat.SerializeToString(deterministic=True)
        delay = world.random.uniform(5, 20) if world.chance(0.02, "heartbeat late") else 0.01
        land = partial(world.beats.place, draft.headers(), value)
        world.later(delay, world.kafka.arrive, land)
        if world.chance(0.02, "heartbeat doubled"):
            world.later(delay + 7, world.kafka.arrive, land)

    def _told(self) -> telemetry_pb2.Heartbeat:
        """What it says of itself now."""
        beat = telemetry_pb2.Heartbeat(dagger=self.name, generation=self.generation, host=self.host.name)
        beat.ui_url = f"http://{self.host.name}/{self.name}/{self.generation}"
        now, hangs = self._world.now(), self._world.loop.time() < self._hangs_until
        progress = now if hangs and self._lies else self._progress
        beat.time.FromDatetime(now + self._clock)
        beat.state = telemetry_pb2.Heartbeat.STATE_STARTING
        if self._taken:
            beat.state = telemetry_pb2.Heartbeat.STATE_RUNNING
            beat.last_progress.FromDatetime(progress + self._clock)
        beat.taking.extend([DB] if self.takes else [])
        if self.outages:
            beat.outages[DB] = self.outages
        idle = (now - progress).total_seconds()
        if idle > 2 * BATCH_S:
            beat.running_batch_age_ms = int(idle * 1000)
        return beat


class SimulatedSpare:
    """A driver that has no launch yet: it warms up, and ends some time after its scheduler has."""

    def __init__(self, world: World, identity: DriverIdentity, has_scheduler: Callable[[], bool]) -> None:
        self.identity = identity
        self.alive, self.ready = True, False
        self._world, self._has_scheduler = world, has_scheduler
        world.later(world.random.uniform(3, 15), self._warmed_up)
        world.later(SPARE_S, self._look)

    def end(self, _: int | None) -> None:
        """Exit, or be killed."""
        self.alive = False

    def _warmed_up(self) -> None:
        if self._world.chance(0.05, "warm-up failed"):
            self.end(70)
        self.ready = True

    def _look(self) -> None:
        if self._world.chance(0.01, "spare died") or not self._has_scheduler():
            self.end(0)
        if self.alive:
            self._world.later(SPARE_S, self._look)


class SimulatedDrivers:
    """The process table of a host, as `scheduler.drivers.process_table.Drivers` shows it to one scheduler."""

    def __init__(
        self,
        world: World,
        sinks: Sinks,
        host: Host,
        source: str,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """`source`: ce_source of the scheduler, which is `alive`."""
        self._world, self._sinks, self._host, self._source = world, sinks, host, source
        self._alive = alive
        self._ended: dict[str, float] = {}
        """When a launch that shares its process was asked to end, by directory."""
        self.runs, self.host = Path("runs"), host.name

    def run_dir(self, name: str, generation: int) -> Path:
        """As Drivers'."""
        return self.runs / name / str(generation)

    def runs_as_another(self, team: str) -> bool:
        """Tell that no team's drivers run as a user of their own."""
        del team
        return False

    def start(
        self, job: spec_pb2.JobSpec, command: Sequence[str], environment: Mapping[str, str]
    ) -> events_pb2.DriverHandle:
        """As Drivers'. Raises: OSError; Violation when nobody, or somebody else, intended it."""
        key = job.dagger, job.generation
        self._world.control_witness.launches(*key, self._source, self.host, self._host.zone)
        if self._world.chance(0.02, "launch failed"):
            raise OSError(12, "Cannot allocate memory")
        if key in self._host.drivers:
            raise FileExistsError(17, "File exists", str(self.run_dir(*key)))
        return self._begin(self._identity(job, str(self.run_dir(*key))), job)

    def user_of(self, team: str) -> str:
        """Return no user, as `Drivers.user_of` of a scheduler with one."""
        del team
        return ""

    def takes_launches(self, process: events_pb2.DriverHandle) -> bool:
        """As Drivers'."""
        return bool(self._host.process(process))

    def join(self, process: events_pb2.DriverHandle, job: spec_pb2.JobSpec) -> events_pb2.DriverHandle | None:
        """Join a process as `Drivers.join` does. Raises: as `start`; Violation when it may not share."""
        key = job.dagger, job.generation
        members = self._host.process(process)
        if not members:
            return None
        self._world.control_witness.launches(*key, self._source, self.host, self._host.zone)
        self._world.control_witness.joins(job.dagger, [member.name for member in members])
        if self._world.chance(0.02, "join failed"):
            raise OSError(28, "No space left on device")
        if key in self._host.drivers:
            raise FileExistsError(17, "File exists", str(self.run_dir(*key)))
        home = members[0].identity
        return self._begin(
            replace(
                home,
                dagger=job.dagger,
                generation=job.generation,
                run_dir=str(self.run_dir(*key)),
                process_dir=home.process_dir or home.run_dir,
            ),
            job,
        )

    def start_spare(
        self, job: spec_pb2.JobSpec, command: Sequence[str], environment: Mapping[str, str]
    ) -> DriverIdentity:
        """As Drivers'. Raises: OSError."""
        if self._world.chance(0.02, "spare not started"):
            raise OSError(12, "Cannot allocate memory")
        identity = self._identity(job, job.run_dir)
        self._host.spares[identity.run_dir] = SimulatedSpare(self._world, identity, self._alive)
        return identity

    def lives(self, spare: DriverIdentity) -> bool:
        """As Drivers'."""
        known = self._host.spares.get(spare.run_dir)
        return known is not None and known.alive

    def ready(self, spare: DriverIdentity) -> bool:
        """As Drivers'."""
        return self.lives(spare) and self._host.spares[spare.run_dir].ready

    def assign(self, spare: DriverIdentity, job: spec_pb2.JobSpec) -> events_pb2.DriverHandle | None:
        """As Drivers'. Raises: as `start`."""
        key = job.dagger, job.generation
        self._world.control_witness.launches(*key, self._source, self.host, self._host.zone)
        if not self.ready(spare):
            return None
        if key in self._host.drivers:
            raise FileExistsError(17, "File exists", str(self.run_dir(*key)))
        del self._host.spares[spare.run_dir]
        run_dir = str(self.run_dir(*key))
        handle = self._begin(
            replace(spare, dagger=job.dagger, generation=job.generation, run_dir=run_dir, spare=True), job
        )
        if self._world.chance(0.05, "spare died as it was assigned"):
            self._host.drivers[key].end(-9)
        return handle

    def attempt_dir(self, number: int) -> Path:
        """As Drivers'."""
        return self.runs / REPLAYS / str(number)

    def start_attempt(
        self,
        job: spec_pb2.JobSpec,
        asked: events_pb2.QuarantineReplayRequested,
        command: Sequence[str],
        environment: Mapping[str, str],
    ) -> events_pb2.DriverHandle:
        """As Drivers'. Raises: OSError; Violation when nobody, or somebody else, intended it."""
        number = job.generation
        self._world.control_witness.replays(asked.name, number, self._source, self.host)
        if self._world.chance(0.02, "replay not started"):
            raise OSError(12, "Cannot allocate memory")
        told = dict(zip(command[::2], map(int, command[1::2]), strict=True))
        quarantine = self._sinks.quarantine
        identity = self._identity(spec_pb2.JobSpec(dagger=REPLAYS, generation=number), job.run_dir)
        self._host.attempts[number] = SimulatedAttempt(
            self._world,
            quarantine,
            self._host,
            self._sinks.lease(f"{asked.name}/replay"),
            identity,
            quarantine.history(asked, told["--sequence"], told["--created"]),
            asked,
            told["--sequence"],
        )
        return as_handle(identity, self.host)

    def attempts(self) -> list[Attempt]:
        """As Drivers'."""
        return [
            Attempt(
                each.asked.name,
                each.asked.replay_id,
                as_handle(each.identity, self.host),
                each.asked.computes,
            )
            for _, each in sorted(self._host.attempts.items())
            if each.alive
        ]

    def outcomes(self, handle: events_pb2.DriverHandle) -> dict[str, int]:
        """As Drivers'."""
        attempt = self._of(handle)
        return dict(attempt.outcomes) if isinstance(attempt, SimulatedAttempt) else {}

    def clear_attempts(self) -> None:
        """As Drivers': there is nothing to remove."""

    def clear_spares(self, kept: DriverIdentity | None) -> None:
        """As Drivers'."""
        for run_dir, spare in list(self._host.spares.items()):
            if kept is None or run_dir != kept.run_dir:
                spare.end(-9)
                del self._host.spares[run_dir]

    def _identity(self, job: spec_pb2.JobSpec, run_dir: str) -> DriverIdentity:
        # Beyond what a kernel gives: the exit watch finds none, and the tick looks.
        pid = 2**30 + self._host.started
        self._host.started += 1
        return DriverIdentity(
            dagger=job.dagger,
            generation=job.generation,
            run_dir=run_dir,
            boot_id=self._host.boot_id,
            pid=pid,
            start_ticks=pid,
        )

    def _begin(self, identity: DriverIdentity, job: spec_pb2.JobSpec) -> events_pb2.DriverHandle:
        """What runs a launch from now on."""
        driver = SimulatedDriver(self._world, self._sinks, self._host, identity, job)
        self._host.drivers[identity.dagger, identity.generation] = driver
        return as_handle(identity, self.host)

    def presence(self, handle: events_pb2.DriverHandle) -> Presence:
        """As Drivers'."""
        if handle.host != self.host:
            return Presence.REMOTE
        driver = self._of(handle)
        return Presence.ALIVE if driver is not None and handle.pid and driver.alive else Presence.GONE

    def find(self, name: str, generation: int) -> events_pb2.DriverHandle | None:
        """As Drivers'."""
        driver = self._host.drivers.get((name, generation))
        return as_handle(driver.identity, self.host) if driver and driver.alive else None

    def build_lost_handle(self, name: str, generation: int) -> events_pb2.DriverHandle:
        """As Drivers'."""
        return events_pb2.DriverHandle(host=self.host, run_dir=str(self.run_dir(name, generation)))

    def living(self) -> list[DriverIdentity]:
        """As Drivers'."""
        running = (*self._host.drivers.values(), *self._host.spares.values())
        return [dagger.identity for dagger in running if dagger.alive]

    def write_missing(self) -> None:
        """As Drivers': no older version ever ran here."""

    def allow_refusals(self, run_dir: str, until: datetime) -> None:
        """As Drivers': the newest word counts. Raises: OSError."""
        if self._world.chance(0.02, "told in vain"):
            raise OSError(28, "No space left on device")
        self._host.allowed[run_dir] = until

    def pause_sinks(self, run_dir: str, sinks: tuple[str, ...]) -> None:
        """Do nothing: drivers of a simulation have no sinks to pause."""

    def give_rules(
        self,
        run_dir: str,
        revision: int,
        rules: Sequence[rules_pb2.AlertRule],
        tables: Iterable[spec_pb2.ReferenceTable] = (),
    ) -> None:
        """Do nothing: daggers of a simulation have no rules."""

    def tell(self, run_dir: str, file: str, text: str) -> None:
        """As Drivers': what is told once stays. Raises: OSError."""
        if self._world.chance(0.02, "told in vain"):
            raise OSError(28, "No space left on device")
        self._host.told.setdefault((run_dir, file), text)

    def shadow_state(self, handle: events_pb2.DriverHandle) -> ShadowState | None:
        """As Drivers'."""
        driver = self._of(handle)
        return driver.state if isinstance(driver, SimulatedDriver) else None

    def drain(self, handle: events_pb2.DriverHandle) -> bool:
        """As Drivers': it ends after its batch."""
        driver = self._of(handle)
        if not isinstance(driver, SimulatedDriver) or not driver.alive:
            return False
        if not self._world.chance(0.05, "drain unheard"):
            self._world.later(self._world.random.uniform(0, 5), driver.end, 0)
        first, driver.drained = not driver.drained, True
        return first

    def kill(self, driver: Identified) -> None:
        """As Drivers'."""
        killed = self._of(driver) or self._host.spares.get(driver.run_dir)
        if isinstance(killed, SimulatedDriver) and len(self._host.process(killed.identity)) > 1:
            self._end_member(killed)
        elif killed is not None:
            killed.end(-9)

    def _end_member(self, member: SimulatedDriver) -> None:
        """End a launch that shares its process: as asked, or with all the others."""
        ordered_at = self._ended.setdefault(member.identity.run_dir, self._world.loop.time())
        if member.alive and not member.mute and not self._world.chance(0.3, "member does not end"):
            self._world.later(self._world.random.uniform(0, 5), member.end, 0)
        if member.alive and self._world.loop.time() - ordered_at >= PATIENCE_S:
            self._host.end_process(member, -9, computes=True)

    def exit(self, handle: events_pb2.DriverHandle) -> events_pb2.Exited:
        """Return the exit of a driver, as `Drivers.exit` does."""
        driver = self._of(handle)
        code = driver.code if driver is not None else None
        if isinstance(driver, SimulatedDriver) and driver.lost is not None:
            company, step = driver.lost
            return classify_loss(classify_exit(code or None, None), company, step)
        return classify_exit(code, None)

    def deployment(self, _: events_pb2.DriverHandle) -> str:
        """As Drivers': no machine and no container is ever started anew here."""
        return ""

    def reap(self) -> None:
        """As Drivers': there is nothing to take leave of."""

    def _of(self, driver: Identified) -> SimulatedDriver | SimulatedAttempt | None:
        processes = (*self._host.drivers.values(), *self._host.attempts.values())
        return next((process for process in processes if process.identity.run_dir == driver.run_dir), None)
