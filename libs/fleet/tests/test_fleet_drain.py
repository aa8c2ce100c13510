"""Cordons and drains: what stands in the log of them, which dagger moves next, and where launches may go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog import Record
from eventlog.testing import START
from fleet import Dagger, Fleet
from fleet.decide import drain
from fleet.decide.drain import choose_place, find_mover, list_stays, next_move
from fleet.decide.packing import LAUNCH_MIB
from fleet.decide.placement import Candidate
from fleet.fold.quotas import Full, Room, need_mib
from fleet.snapshot import entries

META = events_pb2.RequestMeta(actor="ada", message="new disk")
NEED = need_mib(spec_pb2.DaggerSpec())


class Story:
    """A log that grows by a second with each record, and its fold."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.changes = entries.ChangeSet()
        self.append(events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
        for host in ("a", "b"):
            self.append(events_pb2.HostRegistered(scheduler_id=host, host=host, agent=1, cores=2))

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.fleet.sequence)

    def append(self, message: Message) -> int:
        sequence = self.fleet.sequence + 1
        kind, value = message.DESCRIPTOR.full_name, message.SerializeToString()
        time = START + timedelta(seconds=sequence)
        record = Record(sequence, f"id-{sequence}", "/t", "s", time, kind, message, value)
        applied = self.fleet.apply(record)
        assert applied.changed, applied.refused
        self.changes.add(record, applied)
        return sequence

    def fact(self, kind: Any, name: str, **fields: Any) -> int:
        generation = self.fleet.daggers[name].generation
        if kind is events_pb2.LaunchIntended:
            generation = 0
        meta = events_pb2.FactMeta(epoch=0, name=name, generation=generation)
        return self.append(kind(meta=meta, **fields))

    def launch(self, name: str, host: str) -> None:
        version = self.fleet.daggers[name].version
        self.fact(events_pb2.LaunchIntended, name, version=version, host=host)
        self.fact(events_pb2.Launched, name, driver=events_pb2.DriverHandle(host=host, pid=1))
        self.fact(events_pb2.Running, name)

    def run(self, *names: str, host: str = "b") -> None:
        for name in names:
            spec = spec_pb2.DaggerSpec(cluster="c", team="t")
            self.append(events_pb2.DaggerRequested(meta=META, name=name, spec=spec))
            self.launch(name, host)

    def stop(self, name: str) -> None:
        self.fact(events_pb2.StopIssued, name, mode=events_pb2.STOP_MODE_DRAIN, move=True)


def rooms(**hosts: int) -> list[Candidate]:
    """Hosts with room for so many daggers each."""
    return [Candidate(host=host, room=Room(memory_mib=fits * NEED)) for host, fits in hosts.items()]


def begin_drain(*names: str) -> Story:
    story = Story()
    story.run(*names)
    story.append(events_pb2.HostDrainRequested(meta=META, host="b"))
    return story


def test_the_newest_request_counts_and_stands_over_a_boot_of_the_host() -> None:
    story = Story()
    states = []
    for kind in (events_pb2.HostCordoned, events_pb2.HostDrainRequested, events_pb2.HostCordoned):
        story.append(kind(meta=META, host="b"))
        story.append(events_pb2.HostRegistered(scheduler_id="b2", host="b", boot_id="another"))
        cordon = story.fleet.standing("b").cordon
        states.append(cordon is not None and (cordon.actor, cordon.message, cordon.drains))
    story.append(events_pb2.HostUncordoned(meta=META, host="b"))

    assert states == [
        ("ada", "new disk", False),
        ("ada", "new disk", True),
        ("ada", "new disk", False),
    ]
    assert story.fleet.standing("b").cordon is None
    assert story.fleet.standing("b").registered is not None


def test_a_host_that_nobody_knows_is_not_cordoned() -> None:
    fleet, event = Fleet(), events_pb2.HostCordoned(meta=META, host="x")
    kind, value = event.DESCRIPTOR.full_name, event.SerializeToString()
    applied = fleet.apply(Record(0, "id", "/t", "s", datetime.now(UTC), kind, event, value))

    assert applied.answer is not None
    assert applied.answer.refusal is not None
    assert applied.answer.refusal.reason == "NOT_FOUND"


def test_a_move_has_the_last_batch_there_and_the_first_one_elsewhere() -> None:
    story = begin_drain("d")
    story.stop("d")
    last, first = story.now + timedelta(seconds=1), story.now + timedelta(seconds=9)
    exited = events_pb2.Exited(meta=events_pb2.FactMeta(epoch=0, name="d"), code=0)
    exited.meta.generation = story.fleet.daggers["d"].generation
    exited.last_commit.FromDatetime(last)
    story.append(exited)
    story.fact(events_pb2.LaunchIntended, "d", version=1, host="a")
    story.fact(events_pb2.Launched, "d", driver=events_pb2.DriverHandle(host="a", pid=2))
    mover = find_mover(story.fleet, "b")
    running = events_pb2.Running(meta=events_pb2.FactMeta(epoch=0, name="d"))
    running.meta.generation = story.fleet.daggers["d"].generation
    running.last_commit.FromDatetime(first)
    story.append(running)
    cordon = story.fleet.standing("b").cordon

    assert mover is not None
    assert cordon is not None
    (move,) = cordon.moves
    assert (move.dagger, move.to_host) == ("d", "a")
    assert move.first_commit.ToDatetime(UTC) - move.last_commit.ToDatetime(UTC) == timedelta(seconds=8)
    assert find_mover(story.fleet, "b") is None


def test_moves_are_part_of_a_snapshot_of_what_changed() -> None:
    story = begin_drain("d")
    whole = dict(entries.encode_changes(story.fleet, entries.ChangeSet()).entries)
    story.changes = entries.ChangeSet(everything=False, since=story.fleet.sequence)
    story.stop("d")
    whole |= entries.encode_changes(story.fleet, story.changes).entries
    restored = entries.restore_fleet(story.fleet.position, whole)

    assert restored.standing("b").cordon == story.fleet.standing("b").cordon
    assert [move.dagger for move in restored.standing("b").cordon.moves] == ["d"]


def test_one_dagger_moves_after_another_and_waits_for_the_one_before() -> None:
    story, refuges = begin_drain("d", "e"), rooms(a=9, b=9)
    first = next_move(story.fleet, "b", refuges)
    story.stop("d")
    meanwhile = [next_move(story.fleet, "b", refuges)]
    story.fact(events_pb2.Exited, "d", code=0)
    meanwhile.append(next_move(story.fleet, "b", refuges))
    story.launch("d", "a")
    second = next_move(story.fleet, "b", refuges)

    assert first is not None
    assert second is not None
    assert (first.name, meanwhile, second.name) == ("d", [None, None], "e")


def test_a_dagger_that_fails_or_is_not_wanted_any_more_holds_up_nobody() -> None:
    error = events_pb2.DaggerError(reason="BROKEN")
    failed, stopped = begin_drain("d", "e"), begin_drain("d", "e")
    for story in (failed, stopped):
        story.stop("d")
        story.fact(events_pb2.Exited, "d", code=1)
    failed.fact(events_pb2.Failed, "d", error=error)
    stopped.append(events_pb2.StopRequested(meta=META, name="d"))
    moved = [next_move(story.fleet, "b", rooms(a=9)) for story in (failed, stopped)]

    assert [dagger.name if dagger else "" for dagger in moved] == ["e", "e"]


def test_critical_daggers_move_last() -> None:
    story = begin_drain("a1", "z9")
    story.fleet.daggers["a1"].spec.priority = spec_pb2.PRIORITY_CRITICAL
    moved = next_move(story.fleet, "b", rooms(a=9))

    assert moved is not None
    assert moved.name == "z9"


def test_what_cannot_move_is_named_with_why() -> None:
    story = begin_drain("d", "e", "f")
    nowhere = [full.reason for _, full in list_stays(story.fleet, "b", rooms(b=9))]
    stays = list(list_stays(story.fleet, "b", rooms(a=1, b=9)))

    assert nowhere == [drain.NO_OTHER_HOST] * 3
    assert [(dagger.name, full.reason) for dagger, full in stays] == [
        ("e", "MAX_MEMORY"),
        ("f", "MAX_MEMORY"),
    ]
    assert stays[0][1].detail.startswith("no other host takes it; of host a: ")


def test_a_dagger_that_joins_a_process_elsewhere_takes_little_room_there() -> None:
    story = begin_drain("d", "e", "f")
    room = Room(drivers=0, memory_mib=LAUNCH_MIB)
    full = [Candidate(host="a", room=room)]

    def joins(dagger: Dagger, host: str) -> bool:
        return (dagger.name, host) in {("e", "a"), ("f", "a")}

    moved = next_move(story.fleet, "b", full, joins)
    stays = [(dagger.name, one.reason) for dagger, one in list_stays(story.fleet, "b", full, joins)]

    assert moved is not None
    assert (moved.name, next_move(story.fleet, "b", full)) == ("e", None)
    assert stays == [("d", "MAX_DRIVERS"), ("f", "MAX_MEMORY")]


def test_a_dagger_that_came_back_is_left_there_until_it_is_asked_for_again() -> None:
    story = begin_drain("d")
    story.stop("d")
    story.fact(events_pb2.Exited, "d", code=0)
    story.launch("d", "b")
    left = [(dagger.name, full.reason) for dagger, full in list_stays(story.fleet, "b", rooms(a=9))]
    again = next_move(story.fleet, "b", rooms(a=9))
    story.append(events_pb2.HostDrainRequested(meta=META, host="b"))
    anew = next_move(story.fleet, "b", rooms(a=9))

    assert (left, again) == ([("d", drain.CAME_BACK)], None)
    assert anew is not None


def test_nothing_new_is_placed_on_a_cordoned_host() -> None:
    story = Story()
    story.append(events_pb2.DaggerRequested(meta=META, name="n", spec=spec_pb2.DaggerSpec(cluster="c")))
    story.append(events_pb2.HostCordoned(meta=META, host="a"))
    new = story.fleet.daggers["n"]
    elsewhere = choose_place(story.fleet, new, rooms(a=9, b=1))
    story.append(events_pb2.HostCordoned(meta=META, host="b"))
    nowhere = choose_place(story.fleet, new, rooms(a=9, b=1))

    assert elsewhere == "b"
    assert isinstance(nowhere, Full)
    assert (nowhere.reason, "(a, b)" in nowhere.detail) == (drain.HOST_CORDONED, True)


def test_what_ran_on_a_cordoned_host_goes_on_there_only_when_no_other_takes_it() -> None:
    story = begin_drain("d", "x")
    story.fact(events_pb2.Exited, "d", code=1)
    ran = story.fleet.daggers["d"]

    assert choose_place(story.fleet, ran, rooms(a=1, b=9)) == "a"
    assert choose_place(story.fleet, ran, rooms(a=0, b=9)) == "b"
