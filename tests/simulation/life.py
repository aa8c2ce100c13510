"""One life of a small fleet, from a seed: two minutes of faults, then quiet, in which all must come right."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Hashable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import grpc
import httpx
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from tests.simulation import services
from tests.simulation.hosts import Host, SimulatedDriver, Sinks
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.outside import SimulatedProjection, SimulatedSpark, SimulatedWebhooks
from tests.simulation.services import Gateway, Service
from tests.simulation.witness import Violation
from tests.simulation.world import World

from chassis.errors import ApiError
from fleet import Answer, Dagger, Fleet, view

NAMES = ("a", "b", "c")
FAULTY_S = 120.0
QUIET_S = 400.0
"""Within this long after the last fault everything must be as it was asked."""
LOOK_S = 5.0
AWAY_S = 130.0
"""A host that nobody reached for so long is vouched for as dead: more than twice the patience of a lease."""
CALL_S = 5.0
"""How long a caller waits for one gateway."""
TAIL = 40
WANTED = {
    gateway_pb2.DESIRED_RUNNING: gateway_pb2.RUNNING,
    gateway_pb2.DESIRED_STOPPED: gateway_pb2.STOPPED,
    gateway_pb2.DESIRED_DELETED: gateway_pb2.DELETED,
}
META = events_pb2.RequestMeta(actor="simulation")


def simulate(seed: int, state: Path) -> Counter[str]:
    """Live through the seed; the faults it bore, by kind. Raises: Violation, with the last events."""
    loop = SimulatedLoop(Random(seed))
    failed: list[BaseException] = []

    def fail(_: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        failed.append(told.get("exception") or Violation(str(told["message"])))
        loop.stop()

    loop.set_exception_handler(fail)
    life = Life(loop, Random(seed), state)
    try:
        loop.run_until_complete(life.live())
    except Exception as error:
        raise Violation(f"seed {seed}: {_why(failed or [error])}\n{life.tail()}") from error
    finally:
        loop.close()
    return life.world.faults


def _why(errors: list[BaseException]) -> str:
    error = errors[0]
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, Violation) else repr(error)


@dataclass(eq=False)
class Member:
    """A process of the fleet's services."""

    role: str
    service: Service
    host: Host | None = None
    """Where a scheduler runs; the others are on machines that nobody talks of."""
    gateway: Gateway | None = None

    @property
    def process(self) -> Process:
        return self.service.process


class Life:
    """The world of a seed, the services in it, the people who ask, and what goes wrong."""

    def __init__(self, loop: SimulatedLoop, random: Random, state: Path) -> None:
        self.loop, self.random, self.state = loop, random, state
        self.world = World(loop, random)
        self.sinks = Sinks(self.world)
        self.hosts = [Host("one"), Host("two")] if random.random() < 0.5 else [Host("one")]
        self.webhooks = SimulatedWebhooks(self.world)
        # A database takes most of the time of a life, so not every one has one.
        self.projection = SimulatedProjection(self.world) if random.random() < 0.3 else None
        self.members: dict[str, Member] = {}
        """Every process there was, by name; of a scheduler, its identity."""
        self._spark = httpx.AsyncClient(transport=SimulatedSpark(self.world, self.hosts), trust_env=False)
        self._cut: dict[str, float] = {}
        self._asked: dict[Hashable, asyncio.Task[None]] = {}
        """What people wait for."""

    async def live(self) -> None:
        """All of it. Raises: Violation."""
        self._wait("the first daggers", self._found())
        while self.loop.time() < FAULTY_S:
            self._keep_up()
            self._break()
            self._ask()
            self._on_call()
            if self.random.random() < 0.1:
                self._read()
            await asyncio.sleep(self.random.uniform(0.5, 5))
        self._mend()
        since = self.loop.time()
        while (wrong := self._wrong()) and self.loop.time() < since + QUIET_S:
            self._keep_up()
            self._on_call()
            self._encourage()
            await asyncio.sleep(LOOK_S)
        if wrong:
            raise Violation(f"{QUIET_S:g} s after the last fault: {'; '.join(wrong)}")
        self._replayed()

    def tail(self) -> str:
        """The last events."""
        lines = [f"at {self.loop.time():.3f} s; the last records of each topic:"]
        for log in (self.world.control, self.world.alerts):
            for record in log.records[-TAIL:]:
                about = " ".join(str(record.message).split())[:150] if record.message else "unreadable"
                kind = record.type.removeprefix("daggers.v1.")
                lines.append(f"{record.sequence:4} {record.time:%M:%S.%f} {record.subject} {kind} {about}")
        return "\n".join(lines)

    # ---- People --------------------------------------------------------------------------------------------

    async def _found(self) -> None:
        cluster = spec_pb2.Cluster(name="local", spark_master="local[1]")
        await self._insist(events_pb2.ClusterRegistered(meta=META, cluster=cluster), "local")
        for name in NAMES:
            spec = spec_pb2.DaggerSpec(cluster="local", sql="run")
            await self._insist(events_pb2.DaggerRequested(meta=META, name=name, spec=spec), name)

    def _request(self, key: Hashable, message: Any, subject: str) -> None:
        """Let somebody ask for it, unless he who asks for `key` still waits."""
        if key not in self._asked:
            self._wait(key, self._insist(message, subject))

    def _wait(self, key: Hashable, asking: Coroutine[Any, Any, None]) -> None:
        def answered(task: asyncio.Task[None]) -> None:
            del self._asked[key]
            task.result()  # a violation ends this life

        self._asked[key] = asyncio.create_task(asking)
        self._asked[key].add_done_callback(answered)

    async def _insist(self, message: Any, subject: str) -> None:
        """Ask one gateway after the other, always under the same id, until there is an answer."""
        request_id = self.world.id()
        while True:
            serving = [each for each in self._serving("gateway") if each.gateway and each.gateway.writer]
            if serving:
                outcome = await self._call(self.random.choice(serving), message, subject, request_id)
                if outcome is not None:
                    self._acknowledged(request_id, outcome)
                    return
            await asyncio.sleep(self.random.uniform(0.1, 2))

    async def _call(
        self, member: Member, message: Any, subject: str, request_id: str
    ) -> Answer | ApiError | None:
        """The answer of a gateway; None when it has none, or none in time."""
        answered: asyncio.Future[Answer | ApiError] = self.loop.create_future()

        async def serve() -> None:
            assert member.gateway is not None
            writer = member.gateway.writer
            assert writer is not None
            outcome: Answer | ApiError | None
            try:
                outcome = writer.answered(request_id, message)
                outcome = outcome or await writer.write(subject, message, request_id, at="")
            except ApiError as error:
                outcome = error
            if not answered.done():
                answered.set_result(outcome)

        self.loop.spawn(member.process, serve())
        await asyncio.wait([answered], timeout=CALL_S)
        if not answered.done():
            answered.cancel()
            return None
        outcome = answered.result()
        again = isinstance(outcome, ApiError) and outcome.code is grpc.StatusCode.UNAVAILABLE
        return None if again else outcome

    def _acknowledged(self, request_id: str, outcome: Answer | ApiError) -> None:
        """What was answered stands in the log, and is what the log says. Raises: Violation."""
        stands = self.world.control_witness.fleet.answers.get(request_id)
        if isinstance(outcome, Answer):
            same = outcome == stands
        else:
            same = (
                stands is not None and stands.refusal is not None and stands.refusal.reason == outcome.reason
            )
        if not same:
            raise Violation(f"request {request_id} was answered {outcome!r}, and the log says {stands}")

    def _ask(self) -> None:
        """Now and then somebody asks for something, or for several things at once."""
        if self.random.random() > 0.25:
            return
        name = self.random.choice(NAMES)
        for _ in range(self.random.choice([1, 1, 2, 3])):
            kind = self.random.choice(["start", "stop", "restart", "edit", "delete"])
            self._request(self.world.id(), self._message(kind, name), name)

    def _message(self, kind: str, name: str) -> Any:
        match kind:
            case "stop":
                mode = self.random.choice([events_pb2.STOP_MODE_DRAIN, events_pb2.STOP_MODE_NOW])
                return events_pb2.StopRequested(meta=META, name=name, mode=mode)
            case "restart":
                return events_pb2.RestartRequested(meta=META, name=name)
            case "edit":
                spec = spec_pb2.DaggerSpec(cluster="local", sql=f"run {self.random.randrange(3)}")
                return events_pb2.DaggerRequested(meta=META, name=name, spec=spec)
            case "delete" if self.random.random() < 0.3:
                return events_pb2.DeleteRequested(meta=META, name=name)
            case _:
                return events_pb2.StartRequested(meta=META, name=name)

    def _encourage(self) -> None:
        """What was given up while things went wrong is started once more by its owner."""
        for dagger in self.world.control_witness.fleet.daggers.values():
            if dagger.phase == gateway_pb2.FAILED and dagger.desired == gateway_pb2.DESIRED_RUNNING:
                started = events_pb2.StartRequested(meta=META, name=dagger.name)
                self._request(("start", dagger.name), started, dagger.name)

    def _on_call(self) -> None:
        """Vouch for the death of what is dead, and end by hand what no scheduler of its host looks after."""
        fleet = self.world.control_witness.fleet
        for dagger in fleet.daggers.values():
            host, driver = self._driver(dagger)
            afar = host is not None and fleet.leader is not None and fleet.leader.host != host.name
            if driver is not None and host is not None and afar and not host.cut and not self.world.faulty:
                asked = dagger.desired == gateway_pb2.DESIRED_RUNNING and dagger.current
                if not asked or dagger.phase == gateway_pb2.UNREACHABLE:
                    driver.end(None)
            if dagger.phase != gateway_pb2.UNREACHABLE or dagger.confirmed_dead:
                continue
            away = host is not None and host.cut and self.loop.time() - self._cut[host.name] > AWAY_S
            if driver is None or not driver.alive or away:
                confirmed = events_pb2.DeathConfirmed(
                    meta=META, name=dagger.name, generation=dagger.generation
                )
                self._request(("dead", dagger.name, dagger.generation), confirmed, dagger.name)

    def _driver(self, dagger: Dagger) -> tuple[Host | None, SimulatedDriver | None]:
        """Where the newest launch of a dagger is, whatever the log says of it."""
        for host in self.hosts:
            driver = host.drivers.get((dagger.name, dagger.generation))
            if driver is not None:
                return host, driver
        return None, None

    # ---- What goes wrong -----------------------------------------------------------------------------------

    def _serving(self, role: str, host: Host | None = None) -> list[Member]:
        return [
            each
            for each in self.members.values()
            if each.role == role and each.service.serves and host in (None, each.host)
        ]

    def _keep_up(self) -> None:
        """A supervisor begins anew what ended: two of everything, and a scheduler on another host."""
        for role in ("gateway", "monitor"):
            for _ in range(2 - len(self._serving(role))):
                self._begin(role)
        for number, host in enumerate(self.hosts):
            wanted = 0 if host.gone else 2 - number
            for _ in range(wanted - len(self._serving("scheduler", host))):
                self._begin("scheduler", host)

    def _begin(self, role: str, host: Host | None = None) -> None:
        process = Process(f"{role}-{len(self.members)}", paused=host is not None and host.cut)
        if self.world.chance(0.7, f"{role} killed"):
            process.dies_at = self.random.randrange(1, 900)
        member: Member
        match role:
            case "gateway":
                gateway = Gateway(self.world, process, self.projection)
                member = Member(role, Service(self.loop, process, gateway.run()), gateway=gateway)
            case "monitor":
                body = services.watch(self.world, process, self.webhooks, self._spark)
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

        return services.scheduler(self.world, process, host, self.sinks, state, dead).run()

    def _break(self) -> None:
        """Now and then a process stands still, or a host vanishes."""
        serving = [each for each in self.members.values() if each.service.serves]
        victim = self.random.choice(serving)
        if not victim.process.paused and self.world.chance(0.2, f"{victim.role} paused"):
            victim.process.paused = True
            self.world.later(self.random.uniform(1, 40), self._resume, victim)
        whole = len(self.hosts) > 1 and not any(host.cut for host in self.hosts)
        if whole and self.world.chance(0.03, "host vanished"):
            away = self.random.choice(self.hosts)
            away.cut, self._cut[away.name] = True, self.loop.time()
            for member in self._serving("scheduler", away):
                member.process.paused = True
            self.world.later(self.random.choice([10, 60, 200]), self._return, away)

    def _return(self, host: Host) -> None:
        if host.cut and not host.gone:
            host.cut = False
            for member in self._serving("scheduler", host):
                self._resume(member)

    def _resume(self, member: Member) -> None:
        if member.process.paused and not (member.host and member.host.cut):
            self.loop.resume(member.process)

    def _mend(self) -> None:
        """No further faults; what is away comes back, or never does."""
        self.world.faulty = False
        for host in self.hosts:
            if host.cut and self.random.random() < 0.5:
                host.gone = True
                for driver in host.drivers.values():
                    driver.end(None)
                for member in self._serving("scheduler", host):
                    member.process.alive = False
            self._return(host)
        for member in self.members.values():
            member.process.dies_at = None
            self._resume(member)

    # ---- What must hold ------------------------------------------------------------------------------------

    def _read(self) -> int:
        """What the tables show is the fold of the log up to where they are. Raises: Violation."""
        if self.projection is None:
            return len(self.world.control.records) - 1
        shown, at = self.projection.daggers([], after="", limit=99)
        fleet = Fleet()
        for record in self.world.control.records[: at + 1]:
            fleet.apply(record)
        folded = [
            view.to_proto(each, fleet) for name in sorted(fleet.daggers) if (each := fleet.living(name))
        ]
        if shown != folded:
            raise Violation(f"the tables at sequence {at} show {shown}, and the log says {folded}")
        return at

    def _wrong(self) -> list[str]:
        """What is not as it was asked, one clause each."""
        found = [f"somebody waits for an answer to {key}" for key in self._asked]
        if (behind := len(self.world.control.records) - 1 - self._read()) > 0:
            found.append(f"the tables are {behind} records behind")
        found += [
            f"incident {alert.incident} of {alert.dagger} is open, or not told"
            for alert in self.world.alert_witness.ledger.alerts.values()
            if alert.firing or not all(each.done for each in alert.deliveries.values())
        ]
        fleet = self.world.control_witness.fleet
        return found + [wrong for dagger in fleet.daggers.values() if (wrong := self._unlike(dagger))]

    def _unlike(self, dagger: Dagger) -> str:
        """How a dagger differs from what was asked; empty when it does not."""
        run = dagger.desired == gateway_pb2.DESIRED_RUNNING
        drivers = [
            driver
            for host in self.hosts
            for driver in host.drivers.values()
            if driver.alive and driver.name == dagger.name
        ]
        current = all(each.generation == dagger.generation for each in drivers) and dagger.current
        if dagger.phase == WANTED[dagger.desired] and len(drivers) == run and (current or not run):
            return ""
        phase, desired = gateway_pb2.Phase.Name(dagger.phase), gateway_pb2.Desired.Name(dagger.desired)
        return f"{dagger.name} is {phase} with {len(drivers)} drivers and {desired} was asked"

    def _replayed(self) -> None:
        """The log, read again, is the state that was reached; what was sent arrived. Raises: Violation."""
        again = Fleet()
        for record in self.world.control.records:
            again.apply(record)
            again.apply(record)
        witness = self.world.control_witness.fleet
        if (again.daggers, again.answers, again.mark) != (witness.daggers, witness.answers, witness.mark):
            raise Violation("the fold of the log, each record twice, is another state")
        if never := self.world.alert_witness.sent.keys() - set(self.webhooks.told):
            raise Violation(f"recorded as sent, and no receiver has it: {sorted(never)}")
