"""Where hosts are read, as the log tells it."""

from __future__ import annotations

from datetime import UTC, datetime

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog import Record
from fleet import Fleet
from fleet.fold.hosts import MAX_ENDPOINTS

META = events_pb2.RequestMeta(actor="test")


def folded(*messages: Message) -> Fleet:
    fleet = Fleet()
    for sequence, message in enumerate(messages):
        value = message.SerializeToString()
        kind = message.DESCRIPTOR.full_name
        fleet.apply(Record(sequence, f"id-{sequence}", "/t", "s", datetime.now(UTC), kind, message, value))
    return fleet


def serving(host: str, address: str, *, tls: bool = False) -> events_pb2.HostServing:
    return events_pb2.HostServing(scheduler_id=f"at {address}", host=host, address=address, tls=tls)


def test_a_host_is_read_at_the_newest_of_its_addresses_first_and_at_few() -> None:
    fleet = folded(*(serving("a", f"a:{port}") for port in range(5)), serving("b", "b:1", tls=True))

    assert [host.address for host in fleet.hosts["a"]] == ["a:4", "a:3", "a:2"][:MAX_ENDPOINTS]
    assert [(host.address, host.tls) for host in fleet.hosts["b"]] == [("b:1", True)]


def test_an_address_stands_there_once_and_is_its_newest_owners() -> None:
    fleet = folded(serving("a", "a:1"), serving("a", "a:2"), serving("a", "a:1", tls=True))

    assert [(host.address, host.tls) for host in fleet.hosts["a"]] == [("a:1", True), ("a:2", False)]


def test_the_host_of_a_dagger_is_known_while_it_runs_and_after() -> None:
    def fact(**more: object) -> events_pb2.FactMeta:
        return events_pb2.FactMeta(epoch=0, name="d", **more)  # type: ignore[arg-type] # only numbers

    asked = [
        events_pb2.SchedulerStarted(scheduler_id="s", host="a"),
        events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(cluster="c")),
    ]
    intended = events_pb2.LaunchIntended(meta=fact(), version=1)
    handle = events_pb2.DriverHandle(host="a", pid=1)
    launched = events_pb2.Launched(meta=fact(generation=2), driver=handle)
    exited = events_pb2.Exited(meta=fact(generation=2), code=1)
    hosts = []
    for history in ([], [intended, launched], [intended, launched, exited]):
        fleet = folded(*asked, *history)
        hosts.append(fleet.host_of(fleet.daggers["d"]))

    assert hosts == ["", "a", "a"]


def test_a_launch_that_an_adopter_on_another_host_speaks_of_stays_at_its_own_when_it_ends() -> None:
    def fact(epoch: int) -> events_pb2.FactMeta:
        return events_pb2.FactMeta(epoch=epoch, name="d", generation=2)

    told = events_pb2.DriverHandle(host="a")  # by its heartbeats, to a leader on b
    fleet = folded(
        events_pb2.SchedulerStarted(scheduler_id="s", host="a"),
        events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(cluster="c")),
        events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=0, name="d"), version=1),
        events_pb2.SchedulerStarted(scheduler_id="t", host="b"),
        events_pb2.Launched(meta=fact(3), driver=told, adopted=True),
        events_pb2.Exited(meta=fact(3), code=1),
    )
    ended = fleet.host_of(fleet.daggers["d"])
    value = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=3, name="d"), version=1)
    kind = value.DESCRIPTOR.full_name
    fleet.apply(Record(6, "id-6", "/t", "s", datetime.now(UTC), kind, value, value.SerializeToString()))

    assert (ended, fleet.host_of(fleet.daggers["d"])) == ("a", "b")


def registered(host: str, scheduler_id: str = "s") -> events_pb2.HostRegistered:
    return events_pb2.HostRegistered(scheduler_id=scheduler_id, host=host, boot_id="b", cores=2)


def gone(host: str, epoch: int) -> events_pb2.HostGone:
    return events_pb2.HostGone(meta=META, host=host, epoch=epoch, cause=events_pb2.HOST_GONE_CAUSE_PERSON)


def refusals(fleet: Fleet) -> list[str]:
    return [answer.refusal.reason for answer in fleet.answers.values() if answer.refusal is not None]


def test_a_host_that_is_gone_has_lost_what_was_launched_there_before_and_nothing_after() -> None:
    fleet = folded(registered("a"), registered("a"), gone("a", 1))
    standing = fleet.standing("a")

    assert standing.is_gone
    assert [standing.has_lost(generation) for generation in (1, 2, 3)] == [True, False, False]


def test_a_host_that_returns_is_there_and_its_old_launches_stay_dead() -> None:
    fleet = folded(registered("a"), registered("a"), gone("a", 1), registered("a", "another"))
    standing = fleet.standing("a")

    assert not standing.is_gone
    assert standing.epoch == 3
    assert standing.has_lost(1)


def test_what_a_host_lacks_changes_in_its_epoch_and_not_by_the_word_of_an_earlier_one() -> None:
    def lacks(epoch: int, *words: str) -> events_pb2.HostLacksChanged:
        return events_pb2.HostLacksChanged(scheduler_id="s", host="a", epoch=epoch, lacks=words)

    fleet = folded(registered("a"), registered("a"), lacks(1, "file /b"), lacks(0, "file /c"), lacks(9))
    standing = fleet.standing("a")

    assert standing.registered is not None
    assert (standing.epoch, list(standing.registered.lacks), standing.registered.cores) == (1, ["file /b"], 2)
    assert folded(lacks(0, "file /b")).standings == {}


def test_a_host_that_was_registered_since_is_not_gone() -> None:
    fleet = folded(registered("a"), registered("a"), gone("a", 0))

    assert refusals(fleet) == ["HOST_REGISTERED"]
    assert not fleet.standing("a").is_gone


def test_nobody_vouches_for_a_host_that_the_log_does_not_have() -> None:
    fleet = folded(registered("a"), gone("b", 0), gone("", 0))

    assert refusals(fleet) == ["NOT_FOUND", "NOT_FOUND"]


def test_a_host_whose_scheduler_is_older_than_registrations_can_be_gone() -> None:
    fleet = folded(serving("a", "a:1"), gone("a", 0))

    assert fleet.standing("a").is_gone


def test_a_dagger_is_lost_with_the_host_of_its_launch_until_it_is_launched_again() -> None:
    def fact(**more: int) -> events_pb2.FactMeta:
        return events_pb2.FactMeta(epoch=0, name="d", **more)

    history = [
        events_pb2.SchedulerStarted(scheduler_id="s", host="b"),
        events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(cluster="c")),
        events_pb2.LaunchIntended(meta=fact(), version=1),
        events_pb2.Launched(meta=fact(generation=2), driver=events_pb2.DriverHandle(host="a", pid=1)),
        serving("a", "a:1"),
        gone("a", 0),
        events_pb2.Exited(meta=fact(generation=2), code=-9),
        events_pb2.LaunchIntended(meta=fact(), version=1),
    ]
    fleets = [folded(*history[:length]) for length in (5, 6, 8)]

    assert [fleet.is_lost(fleet.daggers["d"]) for fleet in fleets] == [False, True, False]


def test_a_host_counts_the_drivers_that_run_there_and_no_others() -> None:
    asked = [
        events_pb2.DaggerRequested(meta=META, name=name, spec=spec_pb2.DaggerSpec(cluster="c"))
        for name in ("d", "e")
    ]
    intended = [
        events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=0, name=name), version=1)
        for name in ("d", "e")
    ]
    away = events_pb2.Launched(
        meta=events_pb2.FactMeta(epoch=0, name="e", generation=4),
        driver=events_pb2.DriverHandle(host="b", pid=1),
    )
    fleet = folded(events_pb2.SchedulerStarted(scheduler_id="s", host="a"), *asked, *intended, away)

    assert [[dagger.name for dagger in fleet.occupied_on(host)] for host in ("a", "b", "c")] == [
        ["d"],
        ["e"],
        [],
    ]
