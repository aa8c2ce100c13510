"""Whatever happened before: in a world that does as it is told, a dagger comes to what is asked of it."""

from datetime import timedelta
from typing import Any

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message
from hypothesis import given, settings
from libs.fleet.tests.fleet_properties import STEPS, Step, history

from eventlog.testing import START, record
from fleet import Fleet
from fleet.decide.observation import Heartbeat, Observation, Policy, Presence
from fleet.decide.reconcile import Drain, Kill, Launch, next_action
from fleet.fold.phases import DELETED, FAILED, RUNNING, STOPPED, UNREACHABLE

ENOUGH = 40


class World:
    """A world in which drivers start, give heartbeats, and end when they are told to."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.now = START + timedelta(days=1)
        self.alive = {name for name, dagger in fleet.daggers.items() if dagger.driver is not None}

    def append(self, message: Any) -> None:
        self.fleet.apply(record(message, sequence=self.fleet.sequence + 1))

    def step(self, name: str) -> bool:
        """Do the next thing; whether there was any."""
        dagger = self.fleet.daggers[name]
        alive = name in self.alive
        self.now += timedelta(hours=1)
        absent = Presence.REMOTE if dagger.phase == UNREACHABLE and not alive else Presence.GONE
        observation = Observation(
            presence=Presence.ALIVE if alive else absent,
            quiet_since=self.now,
            heartbeat=Heartbeat(state=Heartbeat.STATE_RUNNING) if alive else None,
            exit=events_pb2.Exited(code=0),
        )
        match next_action(
            dagger, now=self.now, epoch=self.fleet.leader.epoch, observation=observation, policy=Policy()
        ):
            case None:
                return False
            case Drain() | Kill():
                self.alive.discard(name)
            case Launch():
                self.append(self.fact(name, events_pb2.LaunchIntended(version=dagger.version), generation=0))
                self.alive.add(name)
                self.append(self.fact(name, events_pb2.Launched(driver={"pid": 1})))
            case fact:
                self.append(self.fact(name, fact))
        return True

    def fact(self, name: str, fact: Any, *, generation: int | None = None) -> Message:
        fact.meta.name, fact.meta.epoch = name, self.fleet.leader.epoch
        fact.meta.generation = self.fleet.daggers[name].generation if generation is None else generation
        return fact


@given(STEPS)
@settings(max_examples=3 * settings.default.max_examples)
def test_a_dagger_comes_to_what_is_asked_and_then_nothing_is_left_to_do(steps: list[Step]) -> None:
    fleet = Fleet()
    for each in history(steps):
        fleet.apply(each)
    world = World(fleet)

    for name in fleet.daggers:
        assert any(not world.step(name) for _ in range(ENOUGH))
    for dagger in fleet.daggers.values():
        wanted = {
            gateway_pb2.DESIRED_RUNNING: (RUNNING, FAILED),
            gateway_pb2.DESIRED_STOPPED: (STOPPED,),
            gateway_pb2.DESIRED_DELETED: (DELETED,),
        }
        unreachable_without_a_handle = dagger.phase == UNREACHABLE and dagger.driver is None
        assert dagger.phase in wanted[dagger.desired] or unreachable_without_a_handle
        assert dagger.phase != RUNNING or (dagger.current and dagger.name in world.alive)
