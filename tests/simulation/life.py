"""One life of a small fleet, from a seed: two minutes of faults, then quiet, in which all must come right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from daggers.v1 import alerts_pb2, gateway_pb2
from tests.simulation.crew import Crew
from tests.simulation.hosts import Host
from tests.simulation.loop import SimulatedLoop
from tests.simulation.people import People
from tests.simulation.witness import Violation
from tests.simulation.world import World

from fleet import Dagger, Fleet
from fleet.alerts.alert import PLATFORM
from fleet.decide.drain import HOST_CORDONED
from fleet.decide.placement import NO_HOST
from fleet.fold import view

FAULTY_S = 120.0
QUIET_S = 400.0
"""Within this long after the last fault everything must be as it was asked."""
KAFKA_AWAY = alerts_pb2.ALERT_CONDITION_KAFKA_AWAY
L = TypeVar("L", bound="Life")
LOOK_S = 5.0
TAIL = 40
WANTED = {
    gateway_pb2.DESIRED_RUNNING: gateway_pb2.RUNNING,
    gateway_pb2.DESIRED_STOPPED: gateway_pb2.STOPPED,
    gateway_pb2.DESIRED_DELETED: gateway_pb2.DELETED,
}


def lived(kind: type[L], seed: int, state: Path, *, faulty_s: float = FAULTY_S) -> L:
    """Live a life of this kind. Raises: Violation, with the last events."""
    loop = SimulatedLoop(Random(seed))
    failed: list[BaseException] = []

    def fail(_: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        failed.append(told.get("exception") or Violation(str(told["message"])))
        loop.stop()

    loop.set_exception_handler(fail)
    life = kind(loop, Random(seed), state, faulty_s)
    try:
        loop.run_until_complete(life.live())
    except Exception as error:
        raise Violation(f"seed {seed}: {_why(failed or [error])}\n{life.tail()}") from error
    finally:
        loop.close()
    return life


def _why(errors: list[BaseException]) -> str:
    error = errors[0]
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, Violation) else repr(error)


class Life:
    """The world of a seed, the services in it, and the people who ask."""

    def __init__(self, loop: SimulatedLoop, random: Random, state: Path, faulty_s: float) -> None:
        self.loop, self.world = loop, World(loop, random)
        self._faulty_s = faulty_s
        self.crew = Crew(self.world, loop, state)
        self.people = People(self.crew)

    async def live(self) -> None:
        """All of it. Raises: Violation."""
        random = self.world.random
        self.people.begin()
        while self.loop.time() < self._faulty_s:
            self.crew.keep_up()
            self.crew.disturb()
            self.people.ask()
            self.people.look_after()
            if random.random() < 0.1:
                self._read()
            await asyncio.sleep(random.uniform(0.5, 5))
        self.crew.mend()
        await self.settle()
        self._check_replayed()

    async def settle(self) -> None:
        """Everything becomes what was asked. Raises: Violation."""
        since = self.loop.time()
        while (wrong := self._wrong()) and self.loop.time() < since + QUIET_S:
            self.crew.keep_up()
            self.people.look_after()
            self.people.place()
            self.people.encourage()
            await asyncio.sleep(LOOK_S)
        if wrong:
            raise Violation(f"{QUIET_S:g} s after the last fault: {'; '.join(wrong)}")

    def tail(self) -> str:
        """The last events."""
        lines = [f"at {self.loop.time():.3f} s; the last records of each topic:"]
        for log in (self.world.control, self.world.alerts):
            for record in log.records[-TAIL:]:
                about = " ".join(str(record.message).split())[:150] if record.message else "unreadable"
                kind = record.type.removeprefix("daggers.v1.")
                lines.append(f"{record.sequence:4} {record.time:%M:%S.%f} {record.subject} {kind} {about}")
        return "\n".join(lines)

    # ---- What must hold ------------------------------------------------------------------------------------

    def _read(self) -> int:
        """What the tables show is the fold of the log up to where they are. Raises: Violation."""
        if self.crew.projection is None:
            return len(self.world.control.records) - 1
        shown, _, at = self.crew.projection.daggers([], after="", limit=99)
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
        found = [f"somebody waits for an answer to {key}" for key in self.people.waiting]
        if (behind := len(self.world.control.records) - 1 - self._read()) > 0:
            found.append(f"the tables are {behind} records behind")
        if self.world.journal.load() is not None:
            found.append("an outage was told, and the log does not have it yet")
        found += [
            f"incident {alert.incident} of {alert.dagger} is open, or not told"
            for alert in self.world.alert_witness.ledger.alerts.values()
            if (alert.firing and not self._may_fire(alert.dagger))
            or not all(delivery.done for delivery in alert.deliveries.values())
        ]
        found += [wrong for host in self.crew.hosts for wrong in self._replays(host)]
        spares = [spare for host in self.crew.hosts for spare in host.spares.values() if spare.alive]
        if len(spares) > 1:
            found.append(f"{len(spares)} spares live, and one scheduler leads")
        fleet = self.world.control_witness.fleet
        found += self._list_misplaced()
        found += [wrong for dagger in fleet.daggers.values() if (wrong := self._describe_unfinished(dagger))]
        found += [wrong for dagger in fleet.daggers.values() if (wrong := self._describe_skipped(dagger))]
        return found + [wrong for dagger in fleet.daggers.values() if (wrong := self._unlike(dagger))]

    def _unlike(self, dagger: Dagger) -> str:
        """How a dagger differs from what was asked; empty when it does not."""
        run = dagger.desired == gateway_pb2.DESIRED_RUNNING
        drivers = [
            driver
            for host in self.crew.hosts
            for driver in host.drivers.values()
            if driver.alive and driver.name == dagger.name
        ]
        if run and not drivers and self._has_no_host(dagger):
            return ""
        if (until := dagger.refusals_until) is not None and run:
            told = {
                host.allowed.get(str(Path("runs") / dagger.name / str(dagger.generation)))
                for host in self.crew.hosts
            }
            if until not in told:
                return f"nobody told the driver of {dagger.name} that its sinks may refuse until {until}"
        current = all(driver.generation == dagger.generation for driver in drivers) and dagger.current
        if dagger.phase == WANTED[dagger.desired] and len(drivers) == run and (current or not run):
            return ""
        phase, desired = gateway_pb2.Phase.Name(dagger.phase), gateway_pb2.Desired.Name(dagger.desired)
        return f"{dagger.name} is {phase} with {len(drivers)} drivers and {desired} was asked"

    def _has_no_host(self, dagger: Dagger) -> bool:
        """Tell whether a dagger waits because the hosts of its zone are gone or drained for good, or may not
        have its state.
        """
        error, zone = dagger.last_error, dagger.spec.needs.get("zone", "")
        if error is None or error.reason != NO_HOST or not zone:
            return False
        retired = self.people.retired
        able = [host for host in self.crew.hosts if not host.gone and host is not retired]
        there = [host for host in able if host.zone == zone]
        return not there or not self.crew.shared or not all(host.agent for host in self.crew.hosts)

    def _may_fire(self, name: str) -> bool:
        """Tell whether an alert of a dagger is right, as no host can run it."""
        dagger = self.world.control_witness.fleet.daggers.get(name)
        return dagger is not None and self._has_no_host(dagger)

    def _list_misplaced(self) -> list[str]:
        """List what is still on a drained host, though another has room; and what is cordoned still."""
        fleet, retired = self.world.control_witness.fleet, self.people.retired
        left = fleet.occupied_on(retired.name) if retired is not None else []
        found = [
            f"{dagger.name} is still on the drained {retired.name}"
            for dagger in left
            if retired is not None and self._has_refuge(dagger)
        ]
        return found + [
            f"{host.name} is cordoned still"
            for host in self.crew.hosts
            if (fleet.standing(host.name).cordon is not None) != (host is retired)
        ]

    def _has_refuge(self, dagger: Dagger) -> bool:
        """Tell whether another host than the one that is drained for good is in the zone of a dagger."""
        zone, retired = dagger.spec.needs.get("zone", ""), self.people.retired
        able = [host for host in self.crew.hosts if not host.gone and host is not retired]
        return not zone or any(host.zone == zone for host in able)

    def _may_wait(self, dagger: Dagger) -> bool:
        """Tell whether the newest replay of a dagger waits, as only a host that is drained for good is in its
        zone.
        """
        replay = dagger.replay
        if replay is None or replay.finished is not None or replay.waits is None:
            return False
        return replay.waits.reason in (HOST_CORDONED, NO_HOST) and not self._has_refuge(dagger)

    def _replays(self, host: Host) -> list[str]:
        """What is wrong with the replays whose attempts are on a host."""
        fleet = self.world.control_witness.fleet
        found = []
        for number, attempt in host.attempts.items():
            dagger = fleet.daggers[attempt.asked.name]
            replay = dagger.replay
            is_newest = replay is not None and replay.id == attempt.asked.replay_id
            if attempt.alive and (not is_newest or (replay is not None and replay.finished is not None)):
                found.append(f"attempt {number} of {dagger.name}'s replay lives on")
        return found

    def _describe_unfinished(self, dagger: Dagger) -> str:
        """How the newest replay of a dagger differs from what was asked; empty when it does not."""
        replay = dagger.replay
        if replay is None or dagger.phase == gateway_pb2.DELETED:
            return ""
        if self._may_wait(dagger):
            return ""
        if replay.finished is None:
            return f"the replay of {dagger.name} has not finished"
        if replay.finished.HasField("error"):
            return ""
        quarantine = self.crew.sinks.quarantine
        meant = quarantine.meant(replay.request, dagger.create_sequence, replay.sequence)
        return quarantine.wrong(replay.request, meant)

    def _describe_skipped(self, dagger: Dagger) -> str:
        """That rows are still set aside which the sink of a dagger that runs did not take; else empty.

        Not where nobody could know of their outage: its driver was gone before a leader heard of it. And not
        where their replay was given up, and none of a later outage has come to its end.
        """
        is_excused = self._has_no_host(dagger) or self._may_wait(dagger)
        if dagger.desired != gateway_pb2.DESIRED_RUNNING or is_excused:
            return ""
        _, driver = self.crew.driver(dagger.name, dagger.generation)
        quarantine = self.crew.sinks.quarantine
        witness = self.world.control_witness
        known, given_up = (of.get(dagger.name, (0, 0)) for of in (witness.skipped, witness.given_up))
        if driver is not None and driver.alive and driver.outages:
            known = max(known, (dagger.generation, driver.outages))
        left = [
            id_
            for id_, (name, *outage) in quarantine.skipped.items()
            if name == dagger.name
            and dagger.create_sequence < outage[0]
            and given_up < tuple(outage) <= known
            and id_ not in quarantine.rows.get(name, ())
        ]
        return (
            f"{len(left)} rows of {dagger.name} that its sink did not take are not replayed" if left else ""
        )

    def _check_replayed(self) -> None:
        """The log, read again, is the state that was reached; what was sent arrived. Raises: Violation."""
        again = Fleet()
        for record in self.world.control.records:
            again.apply(record)
            again.apply(record)
        witness = self.world.control_witness.fleet
        if (again.daggers, again.answers, again.position) != (
            witness.daggers,
            witness.answers,
            witness.position,
        ):
            raise Violation("the fold of the log, each record twice, is another state")
        incident = self.world.alert_witness.ledger.alert(PLATFORM, KAFKA_AWAY).incident
        if [told for told in self.crew.webhooks.told if told[1] == KAFKA_AWAY and told[2] > incident]:
            raise Violation("somebody was told that Kafka is away, and no log knows of it")
        if never := self.world.alert_witness.sent.keys() - set(self.crew.webhooks.told):
            raise Violation(f"recorded as sent, and no receiver has it: {sorted(never)}")
