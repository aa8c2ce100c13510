"""Twenty-three rules that keep daggers safe, and how each is taken away, so that the simulation misses it.

A rule is one seam of the real code; here it is put out of force, and nothing else is changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import pytest
from daggers.v1 import events_pb2
from tests.simulation import people
from tests.simulation.life import FAULTY_S, Life
from tests.simulation.lost_host import LostHost

from eventlog.fold import Step
from fleet import ApplyResult, Dagger
from fleet.decide import drain, packing, placement, reconcile, shadowing
from fleet.fold import cordons, fact_changes, quotas
from fleet.fold.facts import FACTS, Driver
from fleet.fold.fleet import Fleet
from fleet.fold.horizon import STANDARD, Horizon
from runtime.state.lease import Lease
from scheduler.leader import replay_policy, replays, scheduler, silent_hosts, starts
from scheduler.leader.launcher import Launcher, Write


class Forgetful(OrderedDict[str, int]):
    """Ids that were seen, and are not remembered."""

    def __contains__(self, _: object) -> bool:
        return False


def without_read_back(patch: pytest.MonkeyPatch) -> None:
    """A launch goes on whatever the fold made of its intent, and whoever leads by then."""

    def read_back(
        launcher: Launcher, name: str, step: Step[ApplyResult], still_leading: Callable[[], None]
    ) -> Dagger:
        return launcher._fleet.daggers[name]

    patch.setattr(Launcher, "_read_back", read_back)


def without_lease_check(patch: pytest.MonkeyPatch) -> None:
    """A driver that took its lease once writes for ever."""
    patch.setattr(Lease, "check", lambda _: True)


def without_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """The fold takes facts of whoever leads, led, or thinks so."""
    patch.setattr(Fleet, "_stale_reason", lambda *_: "")


def without_id_dedup(patch: pytest.MonkeyPatch) -> None:
    """The fold takes a fact as often as it stands in the log."""
    begin = Fleet.__init__

    def forgetting(fleet: Fleet, horizon: Horizon = STANDARD) -> None:
        begin(fleet, horizon)
        fleet.facts = Forgetful()

    patch.setattr(Fleet, "__init__", forgetting)


def with_inherited_intents(patch: pytest.MonkeyPatch) -> None:
    """An intent that nobody answered is submitted by whoever finds it, under its own generation."""
    launch = Launcher.launch

    async def submit(
        launcher: Launcher, name: str, write: Write, still_leading: Callable[[], None], host: str = ""
    ) -> None:
        await launcher._follower.catch_up()
        dagger: Any = launcher._fleet.daggers[name]
        if not dagger.unanswered:
            await launch(launcher, name, write, still_leading, host)
            return
        prepared, command, environment = launcher._prepare(dagger, dagger.generation)
        handle = launcher._drivers.start(prepared, command, environment)
        await write(dagger, events_pb2.Launched(driver=handle))

    patch.setattr(Launcher, "launch", submit)


def without_proof_of_death(patch: pytest.MonkeyPatch) -> None:
    """A shadow is handed over to, and told that the driver beside it has ended, while that one runs."""
    cutover_files, next_step = shadowing.cutover_files, shadowing.next_step

    def ended(dagger: Dagger) -> Iterator[tuple[events_pb2.DriverHandle, str, str]]:
        yield from cutover_files(dagger)
        yield from cutover_files(replace(dagger, driver=None))

    def hasty(dagger: Dagger, *rest: Any, **known: Any) -> shadowing.Step | None:
        decided = dagger.shadow is not None and dagger.shadow.boundary is not None
        return next_step(replace(dagger, driver=None) if decided else dagger, *rest, **known)

    row = FACTS[events_pb2.CutoverHanded]
    patch.setitem(FACTS, events_pb2.CutoverHanded, replace(row, driver=Driver.ANY))  # type: ignore[arg-type] # it is a dict
    patch.setattr(shadowing, "cutover_files", ended)
    patch.setattr(shadowing, "next_step", hasty)


def without_lost_hosts(patch: pytest.MonkeyPatch) -> None:
    """That a host is gone says nothing of what was launched there."""
    patch.setattr(Fleet, "is_lost", lambda *_: False)


def without_host_epoch(patch: pytest.MonkeyPatch) -> None:
    """Let the fold take facts of whoever is, was, or thinks it is the agent of a host."""
    patch.setattr(Fleet, "_replaced_reason", lambda *_: "")


def without_own_intents(patch: pytest.MonkeyPatch) -> None:
    """Let an agent launch any intent that names its host and that nobody has answered."""

    def is_untried(launcher: Launcher, dagger: Dagger, *, since: int) -> bool:
        del since
        return dagger.unanswered and dagger.host == launcher._drivers.host

    patch.setattr(Launcher, "is_untried", is_untried)


def without_own_attempts(patch: pytest.MonkeyPatch) -> None:
    """Let an agent start any attempt of a replay that names its host and that nobody has answered."""
    next_agent_step = replay_policy.next_agent_step

    def step(*arguments: Any, **rest: Any) -> Any:
        return next_agent_step(*arguments, **(rest | {"is_own": True}))

    patch.setattr(replays, "next_agent_step", step)


def without_labels(patch: pytest.MonkeyPatch) -> None:
    """Place daggers wherever there is room, whatever they need."""
    patch.setattr(placement, "find_unmet", lambda *_, **__: iter(()))


def without_cordons(patch: pytest.MonkeyPatch) -> None:
    """Let launches be placed on hosts that are cordoned."""
    patch.setattr(drain, "takes_new", lambda *_: True)


def without_turns(patch: pytest.MonkeyPatch) -> None:
    """Let a drain stop the next dagger while the one before is on its way."""
    patch.setattr(drain, "find_mover", lambda *_: None)


def without_ends_of_drains(patch: pytest.MonkeyPatch) -> None:
    """Let a drain go on that somebody has ended."""
    change = cordons.record_change

    def record_change(standings: Any, event: Any, **when: Any) -> None:
        before = standings.get(event.host)
        if isinstance(event, events_pb2.HostDrainRequested) or before is None or not before.is_draining:
            change(standings, event, **when)

    patch.setattr(cordons, "record_change", record_change)


def without_start_limit(patch: pytest.MonkeyPatch) -> None:
    """Let all launches begin at once."""
    patch.setattr(starts, "has_free_core", lambda *_, **__: True)


def without_room(patch: pytest.MonkeyPatch) -> None:
    """Place daggers on hosts whatever memory they have."""
    patch.setattr(quotas, "full", lambda *_: None)


def without_waiting_stops(patch: pytest.MonkeyPatch) -> None:
    """Let drivers be stopped whose successors cannot start yet."""
    patch.setattr(scheduler, "wants_replacement", lambda _: False)


def without_isolation(patch: pytest.MonkeyPatch) -> None:
    """Let daggers share processes that have one of their own."""
    patch.setattr(people, "SHARES", 1.0)
    patch.setattr(packing, "explain_alone", lambda *_: "")


def without_suspicion(patch: pytest.MonkeyPatch) -> None:
    """Let daggers share again that were computing in two deaths of their process."""
    patch.setattr(people, "SHARES", 1.0)
    patch.setattr(fact_changes, "SUSPICION", timedelta(0))


def without_innocence(patch: pytest.MonkeyPatch) -> None:
    """Count each death of a process as an attempt of all that it ran."""
    patch.setattr(people, "SHARES", 1.0)
    patch.setattr(reconcile, "PROCESS_LOST", "")


def without_critical_starts(patch: pytest.MonkeyPatch) -> None:
    """Let critical daggers wait for the starts of all others."""
    has_free_core = starts.has_free_core

    def has(*arguments: Any, critical: bool) -> bool:
        del critical
        return has_free_core(*arguments, critical=False)

    patch.setattr(starts, "has_free_core", has)


def without_agent_check(patch: pytest.MonkeyPatch) -> None:
    """Let a process that was the agent of its host go on with what it began, whoever is by then."""

    async def confirm(launcher: Launcher, _: int) -> bool:
        await launcher._follower.catch_up()
        return True

    patch.setattr(Launcher, "confirm_agent", confirm)


def without_early_loss(patch: pytest.MonkeyPatch) -> None:
    """Let a host be silent for half a minute longer before it is gone."""
    patch.setattr(silent_hosts, "GONE_AFTER", silent_hosts.GONE_AFTER + timedelta(seconds=30))


@dataclass(frozen=True, slots=True)
class Rule:
    """How a rule is taken away, which check misses it, and how long faults last for that to show soon.

    check: part of the sentence of the check. faulty_s: in seconds. life: kind of the lives that show it.
    """

    remove: Callable[[pytest.MonkeyPatch], None]
    check: str
    faulty_s: float = FAULTY_S
    life: type[Life] = Life


LATE: Final = " after the loss of "
"""Check of when critical daggers run again."""
STARTED: Final = " starts generation "
"""Check of who starts a driver or an attempt: who intended it, or the agent that the intent names, once."""
REMOVED: Final[Mapping[str, Rule]] = {
    "read-back": Rule(without_read_back, STARTED),
    # A host has to vanish, be vouched to be dead (after 130 s), and come back while others write.
    "lease check": Rule(without_lease_check, " writes after generation ", faulty_s=400),
    "epoch check": Rule(without_epoch_check, " of the stale epoch "),
    "id dedup": Rule(without_id_dedup, " counts again, "),
    "inherited intent": Rule(with_inherited_intents, STARTED),
    "proof of death": Rule(without_proof_of_death, " window "),
    "lost host": Rule(without_lost_hosts, " after the last fault: "),
    "host epoch": Rule(without_host_epoch, ", whose agent is "),
    "own intent": Rule(without_own_intents, STARTED),
    "own attempt": Rule(without_own_attempts, STARTED),
    "agent of the host": Rule(without_agent_check, STARTED),
    "labels": Rule(without_labels, " and needs zone "),
    "cordon": Rule(without_cordons, " on the cordoned ", faulty_s=400),
    "one move after another": Rule(without_turns, " is on its way", faulty_s=400),
    "end of a drain": Rule(without_ends_of_drains, " which nobody drains", faulty_s=400),
    "starts by cores": Rule(without_start_limit, " starts at "),
    "stops by cores": Rule(without_waiting_stops, " is stopped at "),
    "room": Rule(without_room, " on the full "),
    "isolation": Rule(without_isolation, " has a process of its own, and joins "),
    "two deaths": Rule(without_suspicion, " was computing at two deaths, and joins ", faulty_s=400),
    "critical starts": Rule(without_critical_starts, LATE, life=LostHost),
    "silence of a host": Rule(without_early_loss, LATE, life=LostHost),
    "deaths of others": Rule(without_innocence, " counts a death of others "),
}
