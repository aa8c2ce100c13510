"""What becomes of a dagger whose team nobody registered."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, events_pb2
from daggers.v1 import gateway_pb2 as pb

from api_gateway.auth.teams import UnknownTeamAction

NAME = "completed_bookings"


async def applied(client: Any, spec: Any, **fields: Any) -> Any:
    return await client.daggers.ApplyDagger(pb.ApplyDaggerRequest(name=NAME, spec=spec, **fields), timeout=30)


async def teams_made(client: Any) -> list[str]:
    records = [record.message async for record in client.log.replay()]
    return [record.team.name for record in records if isinstance(record, events_pb2.TeamRegistered)]


async def test_an_unknown_team_is_refused_with_the_one_that_was_meant(
    harness: Any, samples: Any, refusal: Any
) -> None:
    spec = samples.spec()
    async with harness.running(unknown_teams=UnknownTeamAction.REFUSE) as client:
        await samples.fill(client)
        team = access_pb2.Team(name=spec.team)
        await client.access.RegisterTeam(pb.RegisterTeamRequest(team=team), timeout=30)
        accepted = await applied(client, spec)
        spec.team = team.name[:-1]
        error = await refusal(applied(client, spec))
        request = pb.ValidateRequest(name=NAME, spec=spec)
        told = await client.daggers.Validate(request, timeout=30)
        [finding] = [finding for finding in told.findings if finding.code == "TEAM_UNKNOWN"]

    assert accepted.dagger.spec.team == team.name
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT
    assert [(violation.field, violation.reason, violation.suggestion) for violation in error.violations] == [
        ("spec.team", "TEAM_UNKNOWN", team.name)
    ]
    assert (finding.field, finding.suggestion) == ("spec.team", team.name)


async def test_a_stack_of_ones_own_makes_the_team_once_and_only_for_what_is_written(
    harness: Any, samples: Any
) -> None:
    spec = samples.spec()
    async with harness.running(unknown_teams=UnknownTeamAction.MAKE) as client:
        await samples.fill(client)
        await applied(client, spec, validate_only=True)
        before = await teams_made(client)
        await asyncio.gather(*(applied(client, spec) for _ in range(3)), return_exceptions=True)
        after = await teams_made(client)
        told = (await client.access.ListTeams(pb.ListTeamsRequest(), timeout=30)).teams

    assert (before, set(after)) == ([], {spec.team})
    assert [(each.name, len(each.members)) for each in told] == [(spec.team, 0)]


@pytest.mark.parametrize("name", ["it_", "Pricing and Supply"])
async def test_a_dagger_of_a_team_that_can_have_no_such_name_is_made_and_the_team_is_not(
    harness: Any, samples: Any, name: str
) -> None:
    spec = samples.spec()
    spec.team = name
    async with harness.running(unknown_teams=UnknownTeamAction.MAKE) as client:
        await samples.fill(client)
        answer = await applied(client, spec)
        made = await teams_made(client)

    assert (answer.dagger.spec.team, made) == (name, [])


@pytest.mark.parametrize("unknown", [UnknownTeamAction.ALLOW, UnknownTeamAction.REFUSE])
async def test_what_a_dagger_is_already_is_not_judged_again(
    harness: Any, samples: Any, unknown: UnknownTeamAction
) -> None:
    log = None
    async with harness.running() as client:
        await samples.fill(client)
        await applied(client, samples.spec())
        log = client.log
    async with harness.running(log, unknown_teams=unknown) as client:
        answer = await applied(client, samples.spec())

    assert answer.action == pb.ApplyDaggerResponse.ACTION_UNCHANGED
