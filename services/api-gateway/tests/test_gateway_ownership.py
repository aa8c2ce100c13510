"""Attacks by tenants on what other teams' daggers write to: by name, address, container, after a delete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from tests.tenants import META, World, world

from api_gateway.validate.reachability import ReachLimits
from chassis.egress.addresses import EgressRules
from chassis.errors import ApiError
from daggerspec.defaults import fill_defaults

pb = gateway_pb2
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]
INFLUX = "influx://127.0.0.1:8086"
BOUNDS = ReachLimits(EgressRules.parse("", "127.0.0.0/8, ::1/128"))


@pytest.fixture
async def enforcing(harness: Any, samples: Any) -> AsyncIterator[World]:
    async with world(harness, samples, bounds=BOUNDS) as made:
        yield made


def spec(samples: Any, team: str, measurement: str = "", **address: str) -> spec_pb2.DaggerSpec:
    made: spec_pb2.DaggerSpec = samples.spec()
    made.team = team
    made.sinks[0].influx.measurement = measurement
    for name, value in address.items():
        setattr(made.sinks[0].influx.address, name, value)
    return made


def create(asked: spec_pb2.DaggerSpec, name: str) -> pb.CreateDaggerRequest:
    return pb.CreateDaggerRequest(name=name, spec=asked)


def reasons(error: ApiError) -> list[tuple[str, str]]:
    return [(violation.field, violation.reason) for violation in error.violations]


FOREIGN = [("spec.sinks[0].influx", "FOREIGN_DESTINATION")]


async def rows(caller: Any, name: str) -> list[Any]:
    return [step async for step in caller.ReadRows(pb.ReadRowsRequest(name=name))]


async def conflicts(world: World, team: str = "") -> list[tuple[str, str, str, str]]:
    request = pb.ListDestinationConflictsRequest(team=team)
    answer = await world.bot("viewer").ListDestinationConflicts(request)
    return [(one.dagger, one.team, one.destination, one.owned.team) for one in answer.conflicts]


def given(name: str, team: str) -> events_pb2.DestinationGiven:
    return events_pb2.DestinationGiven(meta=META, destination={"name": name, "team": team})


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:8086", "http://localhost:8086", "http://[::1]:8086"])
async def test_a_measurement_of_another_team_is_refused_by_every_address_of_its_server(
    enforcing: World, samples: Any, refusal: Refused, url: str
) -> None:
    await enforcing.bot("editor").CreateDagger(create(spec(samples, "pricing", "fares"), "fares"))
    asked = spec(samples, "delivery", "fares", **({"url": url, "bucket": "daggers"} if url else {}))
    stranger = enforcing.bot("stranger")

    error = await refusal(stranger.CreateDagger(create(asked, "mine")))
    applied = await refusal(stranger.ApplyDagger(pb.ApplyDaggerRequest(name="mine", spec=asked)))
    checked = await stranger.Validate(pb.ValidateRequest(name="mine", spec=asked))

    assert reasons(error) == reasons(applied) == FOREIGN
    assert "is team pricing's" in error.violations[0].message
    assert [finding.code for finding in checked.findings] == ["FOREIGN_DESTINATION"]


async def test_a_port_of_its_own_is_another_server(enforcing: World, samples: Any) -> None:
    await enforcing.bot("editor").CreateDagger(create(spec(samples, "pricing", "fares"), "fares"))
    asked = spec(samples, "delivery", "fares", url="http://127.0.0.1:8087", bucket="daggers")

    await enforcing.bot("stranger").CreateDagger(create(asked, "mine"))


async def test_a_name_that_is_free_again_still_writes_to_what_its_first_team_owns(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    await enforcing.bot("owner").CreateDagger(create(spec(samples, "pricing"), "fares"))
    await enforcing.write(events_pb2.SchedulerStarted(scheduler_id="s"))
    leader = enforcing.client.gateway.fold.fleet.leader
    await enforcing.bot("owner").DeleteDagger(pb.DeleteDaggerRequest(name="fares"))
    await enforcing.write(events_pb2.Deleted(meta={"name": "fares", "epoch": leader.epoch}), "fares")

    error = await refusal(enforcing.bot("stranger").CreateDagger(create(spec(samples, "delivery"), "fares")))
    again = await enforcing.bot("editor").CreateDagger(create(spec(samples, "pricing"), "fares"))

    assert reasons(error) == FOREIGN
    assert again.dagger.version == 1


async def test_another_container_of_the_cluster_is_nobodys_until_it_is_given_to_a_team(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    asked = spec(samples, "pricing", "pay", bucket="payroll")
    error = await refusal(enforcing.bot("editor").CreateDagger(create(asked, "pay")))
    await enforcing.write(given(f"{INFLUX}/payroll/*", "pricing"))
    await enforcing.bot("editor").CreateDagger(create(asked, "pay"))
    theirs = spec(samples, "delivery", "anything", bucket="payroll")
    foreign = await refusal(enforcing.bot("stranger").CreateDagger(create(theirs, "mine")))

    assert reasons(error) == reasons(foreign) == FOREIGN
    assert f"daggers team give '{INFLUX}/payroll/*' pricing" in error.violations[0].message
    assert "is team pricing's" in foreign.violations[0].message


async def test_rows_of_a_destination_that_was_given_away_are_read_by_its_new_team_alone(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    await enforcing.bot("editor").CreateDagger(create(spec(samples, "pricing", "fares"), "fares"))
    assert await rows(enforcing.bot("viewer"), "fares") == []
    await enforcing.write(given(f"{INFLUX}/daggers/fares", "delivery"))

    error = await refusal(rows(enforcing.bot("viewer"), "fares"))

    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FOREIGN_DESTINATION")


async def test_the_same_request_again_is_answered_as_before(enforcing: World, samples: Any) -> None:
    request = pb.ApplyDaggerRequest(name="fares", spec=spec(samples, "pricing", "fares"), request_id="r-1")
    editor = enforcing.bot("editor")

    answers = [await editor.ApplyDagger(request) for _ in range(2)]

    assert answers[0] == answers[1]


async def test_of_daggers_from_before_the_oldest_ones_team_owns_what_it_writes_to(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    for name, team in (("older", "pricing"), ("younger", "delivery")):
        old = fill_defaults(name, spec(samples, team, "fares"))
        await enforcing.write(events_pb2.DaggerRequested(meta=META, name=name, spec=old), name)
    edited = spec(samples, "delivery", "fares")
    edited.trigger.FromSeconds(7)
    stranger = enforcing.bot("stranger")

    error = await refusal(stranger.UpdateDagger(pb.UpdateDaggerRequest(name="younger", spec=edited)))
    unread = await refusal(rows(stranger, "younger"))
    listed = await conflicts(enforcing)
    edited.team = "pricing"
    kept = await enforcing.bot("editor").UpdateDagger(pb.UpdateDaggerRequest(name="older", spec=edited))

    assert reasons(error) == FOREIGN
    assert unread.reason == "FOREIGN_DESTINATION"
    assert listed == [("younger", "delivery", f"{INFLUX}/daggers/fares", "pricing")]
    assert kept.dagger.version == 2
    assert await conflicts(enforcing) == listed
    assert (await conflicts(enforcing, "pricing"), await conflicts(enforcing, "others")) == (listed, [])


async def test_a_gateway_that_observes_says_what_it_would_refuse_and_gives_nobody_anything(
    harness: Any, samples: Any
) -> None:
    async with world(harness, samples, enforce=False, bounds=BOUNDS) as observing:
        await observing.bot("editor").CreateDagger(create(spec(samples, "pricing", "fares"), "fares"))
        made = await observing.bot("stranger").CreateDagger(
            create(spec(samples, "delivery", "fares"), "mine")
        )

        assert [text for text in made.dagger.warnings if text.startswith("FOREIGN_DESTINATION")]
        assert observing.client.gateway.fold.fleet.catalogue.destinations == {}


async def test_a_name_that_begins_with_a_value_is_no_name_on_a_server_that_teams_share(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    shared = spec_pb2.RegisteredSink(
        name="cache", teams=["pricing", "delivery"], sink={"redis": {"address": "127.0.0.1:6379"}}
    )
    await enforcing.root.RegisterSink(pb.RegisterSinkRequest(sink=shared))

    def keys(key: str) -> pb.CreateDaggerRequest:
        asked = spec(samples, "pricing")
        asked.sinks[0].CopyFrom(spec_pb2.Sink(registered="cache", redis={"key": key}))
        return create(asked, "cached")

    editor = enforcing.bot("editor")
    error = await refusal(editor.CreateDagger(keys("${tag_city}")))
    await enforcing.write(given("redis://127.0.0.1:6379/0/*", "pricing"))
    whole = await editor.CreateDagger(keys("${tag_city}"))

    assert reasons(error) == [("spec.sinks[0].redis", "DESTINATION_BOUNDLESS")]
    assert "daggers team give 'redis://127.0.0.1:6379/0/*' pricing" in error.violations[0].message
    assert whole.dagger.version == 1


async def test_a_registered_sink_gives_each_team_a_container_that_no_other_team_writes_to(
    enforcing: World, samples: Any, refusal: Refused
) -> None:
    own = {"team": "pricing", "sink": {"influx": {"address": {"bucket": "pricing"}}}}
    shared = spec_pb2.RegisteredSink(
        name="metrics",
        teams=["pricing", "delivery"],
        sink={"influx": {"address": {"url": "http://127.0.0.1:8186", "bucket": "all"}}},
        by_team=[own],
    )
    for _ in range(2):  # again is no harm
        await enforcing.root.RegisterSink(pb.RegisterSinkRequest(sink=shared))

    def fares(team: str) -> spec_pb2.DaggerSpec:
        asked = spec(samples, team)
        asked.sinks[0].CopyFrom(spec_pb2.Sink(registered="metrics", influx={"measurement": "fares"}))
        return asked

    await enforcing.bot("editor").CreateDagger(create(fares("pricing"), "fares"))
    await enforcing.bot("stranger").CreateDagger(create(fares("delivery"), "others"))
    reaching = spec(samples, "delivery", "other", url="http://127.0.0.1:8186", bucket="pricing")
    error = await refusal(enforcing.bot("stranger").CreateDagger(create(reaching, "mine")))

    owned = enforcing.client.gateway.fold.fleet.catalogue.destinations
    assert {name: entry.value.team for name, entry in owned.items() if ":8186/" in name} == {
        "influx://127.0.0.1:8186/pricing/*": "pricing",
        "influx://127.0.0.1:8186/pricing/fares": "pricing",
        "influx://127.0.0.1:8186/all/fares": "delivery",
    }
    assert reasons(error) == FOREIGN


async def test_no_registered_sink_gives_a_team_what_is_another_teams(
    enforcing: World, refusal: Refused
) -> None:
    await enforcing.write(given("redis://127.0.0.1:6379/2/*", "delivery"))
    own = {"team": "pricing", "sink": {"redis": {"database": 2}}}
    sink = spec_pb2.RegisteredSink(name="cache", sink={"redis": {"address": "127.0.0.1:6379"}}, by_team=[own])

    error = await refusal(enforcing.root.RegisterSink(pb.RegisterSinkRequest(sink=sink)))

    assert reasons(error) == [("sink.by_team", "FOREIGN_DESTINATION")]
