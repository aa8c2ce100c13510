"""Every process of the services: begun, begun anew when it ended, killed, paused; and their hosts."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from tests.simulation import services
from tests.simulation.hosts import Host, SimulatedDriver, Sinks
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.outside import SimulatedProjection, SimulatedSpark, SimulatedWebhooks
from tests.simulation.services import GatewayModel, Service
from tests.simulation.world import World


@dataclass(eq=False)
class Member:
    """A process of the fleet's services."""

    role: str
    service: Service
    host: Host | None = None
    """Where a scheduler runs; the others are on machines that nobody talks of."""
    gateway: GatewayModel | None = None

    @property
    def process(self) -> Process:
        return self.service.process


class Crew:
    """The hosts of a world and the services on them; `state` is a directory for the schedulers'."""

    def __init__(self, world: World, loop: SimulatedLoop, state: Path) -> None:
        self.world, self.loop, self.state = world, loop, state
        self.random = world.random
        self.sinks = Sinks(world)
        self.hosts = [Host("one"), Host("two")] if self.random.random() < 0.5 else [Host("one")]
        self.webhooks = SimulatedWebhooks(world)
        # A database takes most of the time of a life, so not every one has one.
        self.projection = SimulatedProjection(world) if self.random.random() < 0.3 else None
        self.spare = self.random.random() < 0.5
        """Whether schedulers keep a spare."""
        self.cutover = self.random.random() < 0.5
        """Whether schedulers make edits by a cutover."""
        for zone, host in zip("ab", self.hosts, strict=False):
            host.zone = zone
            host.memory_mib = self.random.choice([16_000, 24_000, 32_000])
            host.cores = self.random.choice([1, 2, 3])
        self.shared = self.random.random() < 0.6
        """Whether all hosts have one checkpoint root."""
        if self.random.random() < 0.2:
            self.hosts[-1].agent = 0  # of before there were agents
        self.members: dict[str, Member] = {}
        """Every process there was, by name; of a scheduler, its identity."""
        self._spark = httpx.AsyncClient(transport=SimulatedSpark(world, self.hosts), trust_env=False)

    def serving(self, role: str, host: Host | None = None) -> list[Member]:
        """The living processes of a role, on one host or everywhere; some may stand still."""
        return [
            member
            for member in self.members.values()
            if member.role == role and member.service.serves and host in (None, member.host)
        ]

    def keep_up(self) -> None:
        """A supervisor begins anew what ended: two of everything, and a scheduler on another host."""
        for role in ("gateway", "monitor"):
            for _ in range(2 - len(self.serving(role))):
                self._begin(role)
        for number, host in enumerate(self.hosts):
            wanted = 0 if host.gone else 2 - number
            for _ in range(wanted - len(self.serving("scheduler", host))):
                self._begin("scheduler", host)

    def _begin(self, role: str, host: Host | None = None) -> None:
        process = Process(f"{role}-{len(self.members)}", paused=host is not None and (host.cut or host.split))
        if self.world.chance(0.7, f"{role} killed"):
            process.dies_at = self.random.randrange(1, 900)
        member: Member
        match role:
            case "gateway":
                gateway = GatewayModel(self.world, process, self.projection)
                member = Member(role, Service(self.loop, process, gateway.run()), gateway=gateway)
            case "monitor":
                body = services.watch(self.world, process, self.webhooks, self._spark, self._ended)
                member = Member(role, Service(self.loop, process, body))
            case _:
                assert host is not None
                member = Member(role, Service(self.loop, process, self._scheduler(process, host)), host)
        self.members[process.name] = member

    def _scheduler(self, process: Process, host: Host) -> Coroutine[Any, Any, None]:
        state = self.state / host.name
        state.mkdir(exist_ok=True)

        def dead(scheduler_id: str) -> bool:
            other = self.members.get(scheduler_id)
            return other is not None and other.host is host and not other.service.serves

        return services.scheduler(
            self.world,
            process,
            host,
            self.sinks,
            state,
            dead,
            spare=self.spare,
            cutover=self.cutover,
            shared=self.shared,
        )

    def _ended(self, monitor_id: str) -> bool:
        """Whether a monitor is known to be dead: all of them stand on one machine."""
        other = self.members.get(monitor_id)
        return other is not None and not other.service.serves

    def disturb(self) -> None:
        """Now and then a process stands still, a host vanishes, or Kafka is away."""
        if not self.world.kafka.away and self.world.chance(0.01, "Kafka away"):
            self.world.kafka.leave(self.random.uniform(5, 90))
        if not self.sinks.quarantine.away and self.world.chance(0.05, "sink away"):
            self.sinks.quarantine.leave(self.random.uniform(1, 40))
        serving = [member for member in self.members.values() if member.service.serves]
        victim = self.random.choice(serving)
        if not victim.process.paused and self.world.chance(0.2, f"{victim.role} paused"):
            victim.process.paused = True
            self.world.later(self.random.uniform(1, 40), self._resume, victim)
        if self.world.chance(0.02, "host filled"):
            self._fill(self.random.choice(self.hosts))
        whole = len(self.hosts) > 1 and not any(host.cut or host.split for host in self.hosts)
        if whole and self.world.chance(0.03, "host vanished"):
            away = self.random.choice(self.hosts)
            away.cut = True
            self._leave(away)
        elif whole and self.world.chance(0.02, "host split"):
            away = self.random.choice(self.hosts)
            away.split = True
            self._leave(away)
        elif whole and self.world.chance(0.02, "host rebooted"):
            self._reboot(self.random.choice(self.hosts))

    def _fill(self, host: Host) -> None:
        """Let something else take all memory of a host for some time."""
        if not host.is_full:
            self._set_full(host, is_full=True)
            self.world.later(self.random.uniform(20, 150), partial(self._set_full, is_full=False), host)

    def _set_full(self, host: Host, *, is_full: bool) -> None:
        host.is_full = is_full
        self.world.control_witness.note_room(host.name, self.world.now(), is_full=is_full)

    def _leave(self, host: Host) -> None:
        host.cut_at = self.loop.time()
        for member in self.serving("scheduler", host):
            member.process.paused = True
        self.world.later(self.random.choice([10, 60, 200]), self._return, host)

    def _reboot(self, host: Host) -> None:
        """End all that runs on a host; a supervisor begins its schedulers anew in another boot."""
        host.boots += 1
        host.end()
        for member in self.serving("scheduler", host):
            member.process.alive = False

    def _return(self, host: Host) -> None:
        if (host.cut or host.split) and not host.gone:
            host.cut = host.split = False
            for member in self.serving("scheduler", host):
                self._resume(member)

    def _resume(self, member: Member) -> None:
        if member.process.paused and not (member.host and (member.host.cut or member.host.split)):
            self.loop.resume(member.process)

    def mend(self) -> None:
        """No further faults; what is away comes back, or never does."""
        self.world.faulty = False
        self.world.kafka.come_back()
        for host in self.hosts:
            self._set_full(host, is_full=False)
            if host.cut and self.random.random() < 0.5:
                host.gone = True
                host.end()
                for member in self.serving("scheduler", host):
                    member.process.alive = False
            self._return(host)
        for member in self.members.values():
            member.process.dies_at = None
            self._resume(member)

    def driver(self, name: str, generation: int) -> tuple[Host | None, SimulatedDriver | None]:
        """Where a launch is, whatever the log says of it."""
        for host in self.hosts:
            driver = host.drivers.get((name, generation))
            if driver is not None:
                return host, driver
        return None, None
