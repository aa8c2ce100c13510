"""Destinations and the teams that own them: who is first, who is refused, what ends that."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import events_pb2
from hypothesis import given
from hypothesis import strategies as st

from daggerspec.destination import Destination, parse
from eventlog.testing import record
from fleet import Fleet
from fleet.fold import ownership
from fleet.fold.fleet import ApplyResult
from fleet.snapshot import entries
from fleet.snapshot.entries import ChangeSet

META = events_pb2.RequestMeta(actor="root")
FARES, TRIPS = "influx://db:8086/b/fares", "redis://cache:6379/0/trips:*"
TEAMS = [events_pb2.TeamRegistered(meta=META, team={"name": name}) for name in ("alpha", "beta")]


class Log:
    """A fold, and what it answers."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        for event in TEAMS:
            self.write(event)

    def write(self, event: Any) -> str:
        """Why an event is refused; empty where it is not."""
        sequence = self.fleet.sequence + 1
        applied: ApplyResult = self.fleet.apply(record(event, sequence=sequence, id=f"r-{sequence}"))
        return applied.answer.refusal.reason if applied.answer and applied.answer.refusal else ""

    def ask(self, team: str, *destinations: str, name: str = "") -> str:
        """Why a dagger of a team that writes there is refused."""
        spec = {"team": team, "sql": "SELECT 1"}
        return self.write(
            events_pb2.DaggerRequested(
                meta=META, name=name or f"of_{team}", spec=spec, destinations=destinations
            )
        )

    def owners(self) -> dict[str, str]:
        return {name: entry.value.team for name, entry in self.fleet.catalogue.destinations.items()}


def given_to(team: str, name: str = FARES) -> events_pb2.DestinationGiven:
    return events_pb2.DestinationGiven(meta=META, destination={"name": name, "team": team})


def released(name: str = FARES) -> events_pb2.DestinationReleased:
    return events_pb2.DestinationReleased(meta=META, name=name)


def delete(log: Log, name: str) -> None:
    log.write(events_pb2.SchedulerStarted(scheduler_id="s"))
    log.write(events_pb2.DeleteRequested(meta=META, name=name))
    assert log.fleet.leader is not None
    log.write(events_pb2.Deleted(meta={"name": name, "epoch": log.fleet.leader.epoch}))
    assert log.fleet.living(name) is None


def test_what_a_team_writes_to_first_is_its_own_and_no_others() -> None:
    log = Log()

    assert log.ask("alpha", FARES, TRIPS) == ""
    assert log.ask("beta", FARES) == "FOREIGN_DESTINATION"
    assert log.ask("beta", "redis://cache:6379/0/trips:berlin") == "FOREIGN_DESTINATION"
    assert log.ask("beta", "redis://cache:6379/0/*") == "FOREIGN_DESTINATION"
    assert log.ask("beta", "redis://cache:6379/1/trips:*") == ""
    assert log.ask("alpha", FARES, name="another") == ""
    assert log.owners() == {FARES: "alpha", TRIPS: "alpha", "redis://cache:6379/1/trips:*": "beta"}


def test_a_refusal_names_the_destination_its_owner_and_what_helps() -> None:
    log = Log()
    log.ask("alpha", TRIPS)
    request = events_pb2.DaggerRequested(spec={"team": "beta"}, destinations=["redis://cache:6379/0/trips:x"])

    refusal = ownership.refuse_request(log.fleet.catalogue, request)

    assert refusal is not None
    assert refusal.metadata == {"destination": request.destinations[0], "owned": TRIPS, "team": "alpha"}
    assert "release" in refusal.detail


def test_the_end_of_a_dagger_ends_no_ownership_and_a_release_does() -> None:
    log = Log()
    log.ask("alpha", FARES)
    assert log.write(released()) == "IN_USE"
    delete(log, "of_alpha")

    assert log.ask("beta", FARES) == "FOREIGN_DESTINATION"
    assert log.write(released()) == ""
    assert log.ask("beta", FARES) == ""
    assert log.owners() == {FARES: "beta"}


def test_a_destination_that_is_given_away_is_refused_at_the_next_edit_of_who_wrote_there() -> None:
    log = Log()
    log.ask("alpha", FARES)

    assert log.write(given_to("beta")) == ""
    assert log.ask("alpha", FARES) == "FOREIGN_DESTINATION"
    assert log.ask("beta", FARES) == ""


@pytest.mark.parametrize("team", ["", "nobody"])
def test_a_destination_is_given_to_a_team_that_is_there(team: str) -> None:
    assert Log().write(given_to(team)) == "NOT_FOUND"


def test_a_team_that_owns_a_destination_is_not_removed() -> None:
    log = Log()
    log.write(given_to("alpha"))

    assert log.write(events_pb2.TeamRemoved(meta=META, name="alpha")) == "IN_USE"
    log.write(released())
    assert log.write(events_pb2.TeamRemoved(meta=META, name="alpha")) == ""


def test_what_nobody_judged_is_nobodys_and_refused_to_nobody() -> None:
    log = Log()
    log.ask("alpha", FARES)

    assert log.ask("beta") == ""
    assert log.ask("beta", "no destination", name="other") == ""
    assert log.owners()[FARES] == "alpha"


def test_owners_stand_in_a_snapshot() -> None:
    log = Log()
    log.ask("alpha", FARES, TRIPS)
    log.write(given_to("beta", TRIPS))

    again = entries.restore_fleet(log.fleet.position, entries.encode_changes(log.fleet, ChangeSet()).entries)

    assert again.catalogue.destinations == log.fleet.catalogue.destinations
    assert again.daggers == log.fleet.daggers


def test_a_destination_remembers_whose_rows_may_be_there_until_it_is_released() -> None:
    log = Log()
    place = ownership.read("redis://cache:6379/0/trips:*")
    assert place is not None
    for name in ("first", "second"):
        log.ask("alpha", TRIPS, FARES, name=name)
    before = ownership.writers(log.fleet.catalogue, place)
    log.write(given_to("beta", TRIPS))
    given_away = ownership.writers(log.fleet.catalogue, place)
    again = entries.restore_fleet(log.fleet.position, entries.encode_changes(log.fleet, ChangeSet()).entries)
    delete(log, "first")
    delete(log, "second")
    log.write(released())

    assert before == given_away == set(log.fleet.catalogue.writers[TRIPS])
    assert len(before) == 2
    assert again.catalogue.writers[FARES] == tuple(sorted(before))
    assert FARES not in log.fleet.catalogue.writers


def test_beyond_a_bound_a_destination_says_that_there_were_others() -> None:
    log = Log()
    place = ownership.read(FARES)
    assert place is not None
    request = events_pb2.DaggerRequested(destinations=[FARES])
    for sequence in range(ownership.WRITERS + 2):
        ownership.take(log.fleet.catalogue, request, sequence)
    remembered = log.fleet.catalogue.writers[FARES]

    assert (remembered[0], remembered[-1]) == (ownership.ELSEWHERE, ownership.WRITERS + 1)
    assert len(remembered) == ownership.WRITERS + 1
    assert ownership.ELSEWHERE in ownership.writers(log.fleet.catalogue, place)


def replayed(name: str = "of_alpha") -> events_pb2.QuarantineReplayRequested:
    return events_pb2.QuarantineReplayRequested(meta=META, name=name, replay_id=f"of {name}")


def test_a_replay_brings_rows_of_each_revision_to_where_the_dagger_writes_now() -> None:
    """Two daggers: what another one wrote there stays remembered, and what is no destination is none then."""
    log = Log()
    log.ask("alpha", TRIPS)
    first = log.fleet.sequence
    log.ask("alpha", FARES, name="beside")
    beside = log.fleet.sequence
    log.ask("alpha", FARES, "no destination")
    second = log.fleet.sequence
    before = dict(log.fleet.catalogue.writers)
    log.write(released("no destination"))
    log.write(replayed())
    after = dict(log.fleet.catalogue.writers)
    again = entries.restore_fleet(log.fleet.position, entries.encode_changes(log.fleet, ChangeSet()).entries)

    assert (before[TRIPS], before[FARES]) == ((first,), (beside, second))
    assert (after[TRIPS], after[FARES]) == ((first,), (first, beside, second))
    assert "no destination" not in log.fleet.catalogue.writers or "no destination" in log.owners()
    assert again.catalogue.writers == log.fleet.catalogue.writers


def test_a_replay_of_a_dagger_with_forgotten_revisions_says_that_there_were_others() -> None:
    catalogue = Log().fleet.catalogue
    place = Destination("influx", "db:8086", "b", "fares", False)
    ownership.take(catalogue, events_pb2.DaggerRequested(destinations=[FARES]), 5)
    ownership.add_replayed(catalogue, [FARES, TRIPS], [3, 4], is_all=False)
    some = catalogue.writers[FARES]
    ownership.add_replayed(catalogue, [FARES], range(10, 10 + ownership.WRITERS), is_all=True)
    many = catalogue.writers[FARES]

    assert some == (ownership.ELSEWHERE, 3, 4, 5)
    assert (many[0], many[-1]) == (ownership.ELSEWHERE, 9 + ownership.WRITERS)
    assert len(many) == ownership.WRITERS
    assert ownership.ELSEWHERE in ownership.writers(catalogue, place)
    assert TRIPS not in catalogue.writers


NAMES = st.text("ab/%*é", max_size=3)
PLACES = st.builds(Destination, st.just("k"), st.sampled_from("st"), st.just("c"), NAMES, st.booleans())


@given(st.lists(PLACES, max_size=8), PLACES)
def test_texts_overlap_as_their_destinations_do(owned: list[Destination], asked: Destination) -> None:
    log = Log()
    for place in owned:
        log.write(given_to("alpha", str(place)))

    found = {parse(entry.value.name) for entry in ownership.overlapping(log.fleet.catalogue, asked)}

    assert found == {place for place in owned if place.overlaps(asked)}
