"""One life of a small fleet, from a seed: two minutes of faults, then quiet, in which all must come right."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from tests.simulation import services
from tests.simulation.hosts import Host, SimulatedDriver, Sinks
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.services import Service
from tests.simulation.witness import Violation
from tests.simulation.world import World

from fleet import Dagger, Fleet

NAMES = ("a", "b", "c")
FAULTY_S = 120.0
QUIET_S = 400.0
"""Within this long after the last fault everything must be as it was asked."""
LOOK_S = 5.0
AWAY_S = 130.0
"""A host that nobody reached for so long is vouched for as dead: more than twice the patience of a lease."""
TAIL = 40
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
    except (RuntimeError, Violation) as error:  # RuntimeError: stopped, see `fail`
        raise Violation(f"seed {seed}: {_why(failed or [error])}\n{life.tail()}") from error
    finally:
        loop.close()
    return life.world.faults


def _why(errors: list[BaseException]) -> str:
    error = errors[0]
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, Violation) else repr(error)


class Life:
    """The world of a seed, the services in it, the people who ask, and what goes wrong."""

    def __init__(self, loop: SimulatedLoop, random: Random, state: Path) -> None:
        self.loop, self.random, self.state = loop, random, state
        self.world = World(loop, random)
        self.sinks = Sinks(self.world)
        self.hosts = [Host("one"), Host("two")] if random.random() < 0.5 else [Host("one")]
        self.schedulers: dict[str, tuple[Service, Host]] = {}
        """Every scheduler there was, by identity."""
        self._cut: dict[str, float] = {}

    async def live(self) -> None:
        """All of it. Raises: Violation."""
        self._found()
        while self.loop.time() < FAULTY_S:
            self._keep_up()
            self._break()
            self._ask()
            self._on_call()
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
        records = self.world.control.records
        lines = [f"at {self.loop.time():.3f} s, the last records of the control topic:"]
        for record in records[-TAIL:]:
            about = " ".join(str(record.message).split())[:150] if record.message else "unreadable"
            kind = record.type.removeprefix("daggers.v1.")
            lines.append(f"{record.sequence:4} {record.time:%M:%S.%f} {record.subject} {kind} {about}")
        return "\n".join(lines)

    # ---- People --------------------------------------------------------------------------------------------

    def _found(self) -> None:
        cluster = spec_pb2.Cluster(name="local", spark_master="local[1]")
        self._request(events_pb2.ClusterRegistered(meta=META, cluster=cluster), "local")
        for name in NAMES:
            spec = spec_pb2.DaggerSpec(cluster="local", sql="run")
            self._request(events_pb2.DaggerRequested(meta=META, name=name, spec=spec), name)

    def _ask(self) -> None:
        """Now and then somebody asks for something, or for several things at once."""
        if self.random.random() > 0.25:
            return
        name = self.random.choice(NAMES)
        for _ in range(self.random.choice([1, 1, 2, 3])):
            kind = self.random.choice(["start", "stop", "restart", "edit", "delete"])
            self._request(self._message(kind, name), name)

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

    def _request(self, message: Any, subject: str) -> None:
        draft = self.world.draft("/simulation", subject, message)
        self.world.control.place(draft.headers(), message.SerializeToString(deterministic=True))

    def _encourage(self) -> None:
        """What was given up while things went wrong is started once more by its owner."""
        for dagger in self.world.control_witness.fleet.daggers.values():
            if dagger.phase == gateway_pb2.FAILED and dagger.desired == gateway_pb2.DESIRED_RUNNING:
                self._request(events_pb2.StartRequested(meta=META, name=dagger.name), dagger.name)

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
                self._request(confirmed, dagger.name)

    def _driver(self, dagger: Dagger) -> tuple[Host | None, SimulatedDriver | None]:
        """Where the newest launch of a dagger is, whatever the log says of it."""
        for host in self.hosts:
            driver = host.drivers.get((dagger.name, dagger.generation))
            if driver is not None:
                return host, driver
        return None, None

    # ---- What goes wrong -----------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        """A supervisor begins anew what ended: two schedulers on the first host, one on another."""
        for host in self.hosts:
            serving = [s for s, at in self.schedulers.values() if at is host and s.serves]
            wanted = 0 if host.gone else 2 if host is self.hosts[0] else 1
            for _ in range(wanted - len(serving)):
                self._begin(host)

    def _begin(self, host: Host) -> None:
        process = Process(f"scheduler-{len(self.schedulers)}@{host.name}", paused=host.cut)
        if self.world.chance(0.7, "scheduler killed"):
            process.dies_at = self.random.randrange(1, 900)
        state = self.state / host.name
        state.mkdir(exist_ok=True)

        def dead(scheduler_id: str) -> bool:
            service, at = self.schedulers.get(scheduler_id, (None, None))
            return service is not None and at is host and not service.serves

        built = services.scheduler(self.world, process, host, self.sinks, state, dead)
        self.schedulers[process.name] = Service(self.loop, process, built.run()), host

    def _break(self) -> None:
        """Now and then a process stands still, or a host vanishes."""
        serving = [(s, at) for s, at in self.schedulers.values() if s.serves]
        service, host = self.random.choice(serving)
        if not service.process.paused and self.world.chance(0.1, "scheduler paused"):
            service.process.paused = True
            self.world.later(self.random.uniform(1, 40), self._resume, service, host)
        if (
            len(self.hosts) > 1
            and not any(h.cut for h in self.hosts)
            and self.world.chance(0.03, "host vanished")
        ):
            away = self.random.choice(self.hosts)
            self._vanish(away)
            self.world.later(self.random.choice([10, 60, 200]), self._return, away)

    def _vanish(self, host: Host) -> None:
        host.cut, self._cut[host.name] = True, self.loop.time()
        for service, at in self.schedulers.values():
            if at is host:
                service.process.paused = True

    def _return(self, host: Host) -> None:
        if host.cut and not host.gone:
            host.cut = False
            for service, at in self.schedulers.values():
                if at is host:
                    self.loop.resume(service.process)

    def _resume(self, service: Service, host: Host) -> None:
        if service.process.paused and not host.cut:
            self.loop.resume(service.process)

    def _mend(self) -> None:
        """No further faults; what is away comes back, or never does."""
        self.world.faulty = False
        for service, _ in self.schedulers.values():
            service.process.dies_at = None
        for host in self.hosts:
            if host.cut and self.random.random() < 0.5:
                host.gone = True
                for driver in host.drivers.values():
                    driver.end(None)
                for service, at in self.schedulers.values():
                    service.process.alive = service.process.alive and at is not host
            self._return(host)
        for service, host in self.schedulers.values():
            self._resume(service, host)

    # ---- What must hold in the end -------------------------------------------------------------------------

    def _wrong(self) -> list[str]:
        """What is not as it was asked, one clause each."""
        found = []
        for dagger in self.world.control_witness.fleet.daggers.values():
            run = dagger.desired == gateway_pb2.DESIRED_RUNNING
            wanted = {
                gateway_pb2.DESIRED_RUNNING: gateway_pb2.RUNNING,
                gateway_pb2.DESIRED_STOPPED: gateway_pb2.STOPPED,
                gateway_pb2.DESIRED_DELETED: gateway_pb2.DELETED,
            }[dagger.desired]
            drivers = [
                driver
                for host in self.hosts
                for driver in host.drivers.values()
                if driver.alive and driver.name == dagger.name
            ]
            current = all(each.generation == dagger.generation for each in drivers) and dagger.current
            if dagger.phase != wanted or len(drivers) != run or (run and not current):
                phase = gateway_pb2.Phase.Name(dagger.phase)
                desired = gateway_pb2.Desired.Name(dagger.desired)
                found.append(f"{dagger.name} is {phase} with {len(drivers)} drivers and {desired} was asked")
        return found

    def _replayed(self) -> None:
        """The fold of the whole log, each record twice, is the state that was reached. Raises: Violation."""
        again = Fleet()
        for record in self.world.control.records:
            again.apply(record)
            again.apply(record)
        witness = self.world.control_witness.fleet
        if (again.daggers, again.answers, again.mark) != (witness.daggers, witness.answers, witness.mark):
            raise Violation("the fold of the log, each record twice, is another state")
