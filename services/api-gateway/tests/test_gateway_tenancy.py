"""AccessService through a gateway: teams, roles, service accounts, grants of streams, owned destinations."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, events_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2
from google.protobuf.duration_pb2 import Duration

from chassis.errors import ApiError
from eventlog import Draft

pb = gateway_pb2
ROOT = "a-token-of-the-first-hour"
FILE = {hashlib.sha256(ROOT.encode()).digest(): "root"}
VIEWER, EDITOR, OWNER = access_pb2.ROLE_VIEWER, access_pb2.ROLE_EDITOR, access_pb2.ROLE_OWNER
ADMINISTRATOR = access_pb2.ROLE_ADMINISTRATOR
DAY = Duration(seconds=86_400)
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]


class Caller:
    """Calls of AccessService, and of the others, by who has a token."""

    def __init__(self, client: Any, token: str = ROOT) -> None:
        self._client, self._metadata = client, (("authorization", f"Bearer {token}"),)
        self._stub = gateway_pb2_grpc.AccessServiceStub(client.channel)

    async def ask(self, method: str, **said: Any) -> Any:
        request = getattr(pb, f"{method}Request")(**said)
        return await getattr(self._stub, method)(request, timeout=30, metadata=self._metadata)

    async def daggers(self) -> list[str]:
        asked = self._client.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=30, metadata=self._metadata)
        return [dagger.name for dagger in (await asked).daggers]

    def with_(self, token: str) -> Caller:
        return Caller(self._client, token)

    async def records(self) -> list[Any]:
        return [record.message async for record in self._client.log.replay()]

    async def subjects(self) -> list[str]:
        return [record.subject async for record in self._client.log.replay()]


def team(name: str = "pricing", contact: str = "", **members: Any) -> access_pb2.Team:
    listed = [access_pb2.Member(principal=f"user:{who}", role=role) for who, role in members.items()]
    return access_pb2.Team(name=name, contact=contact, members=listed)


@pytest.fixture
async def root(harness: Any) -> AsyncIterator[Caller]:
    async with harness.running(tokens=lambda: FILE, enforce=True) as client:
        yield Caller(client)


@pytest.fixture
async def bot(root: Caller) -> Caller:
    """An owner of the team pricing."""
    await root.ask("RegisterTeam", team=team())
    made = await root.ask("CreateServiceAccount", name="boss", team="pricing", role=OWNER)
    return root.with_(made.token)


async def test_a_team_is_registered_once_for_a_request_and_told_as_it_is(root: Caller) -> None:
    asked = team(contact="#pricing", bob=VIEWER, ada=OWNER)
    first = await root.ask("RegisterTeam", team=asked, request_id="r1")
    again = await root.ask("RegisterTeam", team=asked, request_id="r1")
    told = await root.ask("GetTeam", name="pricing", min_sequence=first.sequence)

    assert (first.version, first.sequence) == (again.version, again.sequence) == (1, 0)
    assert told.team == team(contact="#pricing", ada=OWNER, bob=VIEWER)
    assert (told.version, told.sequence) == (1, 0)


async def test_a_team_may_be_called_by_two_letters(root: Caller) -> None:
    made = await root.ask("RegisterTeam", team=team("hr"))
    used = await root.ask("GetTeamUsage", team="hr", min_sequence=made.sequence)

    assert (made.version, used.uses[0].name, used.uses[0].used) == (1, "daggers", 0)


async def test_everything_that_is_wrong_with_a_team_is_told_at_once(root: Caller, refusal: Refused) -> None:
    wrong = access_pb2.Team(name="A", contact="a\nb", members=[access_pb2.Member(principal="ada")])
    error = await refusal(root.ask("RegisterTeam", team=wrong, expected_version=-1))

    assert [violation.field for violation in error.violations] == [
        "team.name", "team.contact", "team.members[0].principal", "expected_version",
    ]  # fmt: skip


async def test_a_team_that_is_only_checked_is_not_written(root: Caller, refusal: Refused) -> None:
    answer = await root.ask("RegisterTeam", team=team(), validate_only=True)
    bad = await refusal(root.ask("RegisterTeam", team=team(ada=ADMINISTRATOR), validate_only=True))

    assert (answer.version, answer.sequence) == (0, 0)
    assert bad.reason == "INVALID_ROLE"
    assert await root.records() == []


async def test_roles_come_and_go_with_a_version_each(root: Caller, refusal: Refused) -> None:
    await root.ask("RegisterTeam", team=team())
    granted = await root.ask("GrantRole", team="pricing", principal="group:all", role=VIEWER)
    late = await refusal(root.ask("RegisterTeam", team=team(), expected_version=1))
    gone = await root.ask("RevokeRole", team="pricing", principal="group:all")
    never = await refusal(root.ask("RevokeRole", team="pricing", principal="group:all"))
    nowhere = await refusal(root.ask("GrantRole", team="prycing", principal="user:ada", role=VIEWER))

    assert [member.principal for member in granted.team.members] == ["group:all"]
    assert (late.reason, late.metadata["actual_version"]) == ("VERSION_MISMATCH", "2")
    assert (list(gone.team.members), gone.version) == ([], 3)
    assert (never.code, never.reason) == (grpc.StatusCode.NOT_FOUND, "NO_ROLE")
    assert (nowhere.reason, nowhere.metadata["suggestion"]) == ("NOT_FOUND", "pricing")


async def test_a_token_is_shown_once_and_kept_as_a_hash(root: Caller, refusal: Refused) -> None:
    await root.ask("RegisterTeam", team=team())
    said = {"name": "ci-bot", "team": "pricing", "role": EDITOR, "request_id": "r1", "lifetime": DAY}
    made = await root.ask("CreateServiceAccount", description="deploys", **said)
    again = await refusal(root.ask("CreateServiceAccount", description="deploys", **said))
    listed = (await root.ask("ListServiceAccounts")).accounts
    secret = made.token.rpartition(".")[2].encode()
    kept = b"".join([message.SerializeToString() for message in await root.records()])

    assert made.token.startswith("dgr.ci-bot.")
    assert (again.code, again.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "TOKEN_SHOWN")
    assert len(secret) == 43
    assert secret not in kept
    assert [(each.name, each.team, each.description) for each in listed] == [("ci-bot", "pricing", "deploys")]
    for token in (*listed[0].tokens, *made.account.tokens):
        assert (token.salt, token.hash, token.HasField("expire_time")) == (b"", b"", True)
    assert await root.with_(made.token).daggers() == []


async def test_a_rotated_account_has_both_tokens_for_the_overlap_and_then_the_new_one(
    root: Caller, refusal: Refused
) -> None:
    await root.ask("RegisterTeam", team=team())
    first = (await root.ask("CreateServiceAccount", name="ci-bot", team="pricing", role=VIEWER)).token
    second = (await root.ask("RotateServiceAccount", name="ci-bot", overlap=DAY)).token
    both = [await root.with_(each).daggers() for each in (first, second)]
    third = (await root.ask("RotateServiceAccount", name="ci-bot")).token
    gone = [await refusal(root.with_(each).daggers()) for each in (first, second)]

    assert both == [[], []]
    assert [each.code for each in gone] == [grpc.StatusCode.UNAUTHENTICATED] * 2
    assert await root.with_(third).daggers() == []


async def test_a_revoked_token_is_refused_at_the_next_call(root: Caller, refusal: Refused) -> None:
    await root.ask("RegisterTeam", team=team())
    token = (await root.ask("CreateServiceAccount", name="ci-bot", team="pricing", role=VIEWER)).token
    await root.with_(token).daggers()
    await root.ask("RevokeServiceAccount", name="ci-bot")
    error = await refusal(root.with_(token).daggers())
    again = await refusal(root.ask("RevokeServiceAccount", name="ci-bot"))

    assert error.code == grpc.StatusCode.UNAUTHENTICATED
    assert (again.reason, again.metadata["kind"]) == ("NOT_FOUND", "account")


async def test_an_account_with_nonsense_is_refused_with_all_of_it(root: Caller, refusal: Refused) -> None:
    await root.ask("RegisterTeam", team=team())
    said = {"name": "A", "description": "\n", "lifetime": Duration(), "team": "pricing", "role": VIEWER}
    error = await refusal(root.ask("CreateServiceAccount", **said))
    endless = await refusal(
        root.ask("CreateServiceAccount", **{**said, "lifetime": Duration(seconds=315_576_000_000)})
    )
    overlong = await refusal(
        root.ask("RotateServiceAccount", name="ci-bot", overlap=Duration(seconds=40 * 86_400))
    )

    assert [violation.field for violation in error.violations] == ["name", "description", "lifetime"]
    assert endless.metadata["count"] == "3"
    assert [violation.field for violation in overlong.violations] == ["overlap"]


async def test_an_owner_has_its_team_and_no_other(bot: Caller, root: Caller, refusal: Refused) -> None:
    await root.ask("RegisterTeam", team=team("delivery", zoe=VIEWER))
    await root.ask("CreateServiceAccount", name="their-bot", team="delivery", role=VIEWER)
    await bot.ask("GrantRole", team="pricing", principal="user:ada", role=OWNER)
    await bot.ask("CreateServiceAccount", name="our-bot", team="pricing", role=VIEWER)
    for method, said in (
        ("GrantRole", {"team": "delivery", "principal": "account:boss", "role": OWNER}),
        ("GrantRole", {"principal": "account:boss", "role": ADMINISTRATOR}),
        ("RevokeRole", {"team": "delivery", "principal": "user:zoe"}),
        ("CreateServiceAccount", {"name": "spy-bot", "team": "delivery", "role": OWNER}),
        ("RotateServiceAccount", {"name": "their-bot"}),
        ("RevokeServiceAccount", {"name": "their-bot"}),
        ("RegisterTeam", {"team": team("pricing")}),
        ("DeleteTeam", {"name": "pricing"}),
        ("SetStreamGrant", {"grant": access_pb2.StreamGrant(stream="bookings")}),
    ):
        assert (await refusal(bot.ask(method, **said))).code == grpc.StatusCode.PERMISSION_DENIED
    listed = {each.name: len(each.members) for each in (await bot.ask("ListTeams")).teams}
    theirs = await bot.ask("GetTeam", name="delivery")
    accounts = [account.name for account in (await bot.ask("ListServiceAccounts")).accounts]

    assert listed == {"delivery": 0, "pricing": 3}
    assert list(theirs.team.members) == []
    assert accounts == ["boss", "our-bot"]


async def test_who_may_do_what_is_written_by_who_may_also_while_the_gateway_observes(
    harness: Any, refusal: Refused
) -> None:
    async with harness.running(tokens=lambda: FILE, enforce=False) as client:
        root = Caller(client)
        await root.ask("RegisterTeam", team=team())
        made = await root.ask("CreateServiceAccount", name="ci-bot", team="pricing", role=OWNER)
        said = {"principal": "account:ci-bot", "role": ADMINISTRATOR}
        error = await refusal(root.with_(made.token).ask("GrantRole", **said))

        assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
        assert (await root.ask("GetTeam")).version == 0


async def test_an_administrator_that_was_made_may_everything_until_it_is_one_no_more(
    bot: Caller, root: Caller, refusal: Refused
) -> None:
    await root.ask("GrantRole", principal="account:boss", role=ADMINISTRATOR)
    await bot.ask("RegisterTeam", team=team("delivery"))
    platform = await bot.ask("GetTeam")
    await root.ask("RevokeRole", principal="account:boss")
    error = await refusal(bot.ask("DeleteTeam", name="delivery"))

    assert [member.principal for member in platform.team.members] == ["account:boss"]
    assert await root.subjects() == ["pricing", "boss", "platform", "delivery", "platform"]
    assert error.code == grpc.StatusCode.PERMISSION_DENIED


async def test_a_team_goes_when_nothing_is_of_it(root: Caller, refusal: Refused) -> None:
    await root.ask("RegisterTeam", team=team())
    await root.ask("CreateServiceAccount", name="ci-bot", team="pricing", role=VIEWER)
    used = await refusal(root.ask("DeleteTeam", name="pricing"))
    await root.ask("RevokeServiceAccount", name="ci-bot")
    gone = await root.ask("DeleteTeam", name="pricing", expected_version=3)
    missing = await refusal(root.ask("GetTeam", name="pricing"))

    assert (used.reason, used.metadata["accounts"]) == ("IN_USE", "ci-bot")
    assert gone.sequence == 3
    assert missing.reason == "NOT_FOUND"


async def test_grants_of_streams_are_listed_and_their_teams_are_there(
    root: Caller, refusal: Refused, samples: Any
) -> None:
    stream = events_pb2.StreamRegistered(stream=samples.stream())
    await root.ask("RegisterTeam", team=team())
    client = root._client
    metadata = (("authorization", f"Bearer {ROOT}"),)
    for method, request in (
        ("RegisterCluster", pb.RegisterClusterRequest(cluster=samples.cluster())),
        ("RegisterSchema", pb.RegisterSchemaRequest(schema={"files": samples.files()})),
        ("RegisterStream", pb.RegisterStreamRequest(stream=stream.stream)),
    ):
        await getattr(client.catalog, method)(request, timeout=30, metadata=metadata)
    grant = access_pb2.StreamGrant(stream="bookings", restricted=True, teams=["pricing"])
    answer = await root.ask("SetStreamGrant", grant=grant)
    listed = (await root.ask("ListStreamGrants")).grants
    lost = await refusal(root.ask("SetStreamGrant", grant={"stream": "bookings", "teams": ["nobody"]}))
    no_stream = await refusal(root.ask("SetStreamGrant", grant={"stream": "bokings"}))

    assert (answer.grant, answer.version) == (grant, 1)
    assert list(listed) == [grant]
    assert (lost.metadata["kind"], lost.metadata["name"]) == ("team", "nobody")
    assert no_stream.metadata["suggestion"] == "bookings"


async def test_lists_have_pages_without_the_platform(root: Caller) -> None:
    await root.ask("GrantRole", principal="user:ada", role=ADMINISTRATOR)
    for name in ("riders", "pricing", "delivery"):
        await root.ask("RegisterTeam", team=team(name))
    first = await root.ask("ListTeams", page_size=2)
    rest = await root.ask("ListTeams", page_size=2, page_token=first.next_page_token)

    assert [[each.name for each in page.teams] for page in (first, rest)] == [
        ["delivery", "pricing"], ["riders"],
    ]  # fmt: skip
    assert rest.next_page_token == ""


async def test_who_calls_is_told_who_that_is_and_the_roles(bot: Caller, root: Caller) -> None:
    await root.ask("RegisterTeam", team=team("delivery"))
    await root.ask("GrantRole", team="delivery", principal="account:boss", role=VIEWER)
    told, first = await bot.ask("WhoAmI"), await root.ask("WhoAmI")

    assert (told.principal, told.administrator, list(told.groups)) == ("account:boss", False, [])
    assert [(role.team, role.role) for role in told.roles] == [("delivery", VIEWER), ("pricing", OWNER)]
    assert (first.principal, first.administrator, list(first.roles)) == ("root", True, [])


async def test_who_has_a_token_with_an_end_is_told_when_that_is(root: Caller) -> None:
    await root.ask("RegisterTeam", team=team("delivery"))
    made = await root.ask("CreateServiceAccount", name="nightly", team="delivery", role=VIEWER, lifetime=DAY)
    told, first = await root.with_(made.token).ask("WhoAmI"), await root.ask("WhoAmI")

    assert told.expire_time.seconds == made.account.tokens[0].expire_time.seconds
    assert not first.HasField("expire_time")


async def test_a_quota_that_cannot_be_kept_is_refused_where_it_stands(root: Caller, refusal: Refused) -> None:
    wrong = access_pb2.Quotas(
        daggers=access_pb2.Quota(soft=2, hard=1), records_per_second=access_pb2.Quota(hard=1)
    )
    error = await refusal(root.ask("RegisterTeam", team=access_pb2.Team(name="pricing", quotas=wrong)))

    assert [(violation.field, violation.reason) for violation in error.violations] == [
        ("team.quotas.daggers.soft", "OUT_OF_RANGE"), ("team.quotas.records_per_second.hard", "WARNED_ONLY"),
    ]  # fmt: skip


def with_receiver(kind: str, **secrets: spec_pb2.SecretRef) -> access_pb2.Team:
    return access_pb2.Team(name="pricing", receivers=[access_pb2.TeamReceiver(kind=kind, secrets=secrets)])


@pytest.mark.parametrize(
    ("kind", "secrets", "wrong"),
    [
        ("slak", {}, ("team.receivers[0].kind", "UNKNOWN_KIND")),
        ("slack", {}, ("team.receivers[0].secrets.url", "REQUIRED")),
        ("slack", {"url": {"env": "HOOK"}}, ("team.receivers[0].secrets.url", "INVALID_REFERENCE")),
        ("slack", {"url": {"file": "hook"}}, ("team.receivers[0].secrets.url.file", "INVALID_REFERENCE")),
    ],
)  # fmt: skip
async def test_a_receiver_that_cannot_be_reached_so_is_refused(
    root: Caller, refusal: Refused, kind: str, secrets: dict[str, dict[str, str]], wrong: tuple[str, str]
) -> None:
    places = {key: spec_pb2.SecretRef(**place) for key, place in secrets.items()}
    error = await refusal(root.ask("RegisterTeam", team=with_receiver(kind, **places)))

    assert [(violation.field, violation.reason) for violation in error.violations] == [wrong]


async def test_where_receivers_have_their_secrets_is_told_to_administrators_and_survives_a_grant(
    bot: Caller, root: Caller
) -> None:
    await root.ask("RegisterTeam", team=with_receiver("slack", url=spec_pb2.SecretRef(file="/run/hook")))
    granted = await root.ask("GrantRole", team="pricing", principal="account:boss", role=VIEWER)
    theirs = (await bot.ask("GetTeam", name="pricing")).team

    assert granted.team.receivers[0].secrets["url"].file == "/run/hook"
    assert [(receiver.kind, len(receiver.secrets)) for receiver in theirs.receivers] == [("slack", 0)]


FARES = "influx://influx:8086/rows/fares"
TRIPS = "redis://cache:6379/0/trips:*"


async def writes_to(root: Caller, team_: str, *destinations: str) -> None:
    """Have a dagger of a team, called as it, whose sinks write to these."""
    client = root._client
    spec = spec_pb2.DaggerSpec(team=team_)
    request = events_pb2.DaggerRequested(name=f"of_{team_}", spec=spec, destinations=destinations)
    number = await client.log.end()
    await client.log.append(Draft(f"w{number}", "/test", request.name, datetime.now(UTC), request))
    async with asyncio.timeout(30):
        await client.gateway.follower.wait_for(await client.log.end())


def owners(listed: Any) -> dict[str, str]:
    return {owned.name: owned.team for owned in listed.destinations}


async def test_who_owns_what_sinks_write_to_is_listed_for_everybody(bot: Caller, root: Caller) -> None:
    await root.ask("RegisterTeam", team=team("delivery"))
    await writes_to(root, "pricing", TRIPS, FARES)
    given = await root.ask("GiveDestination", destination={"name": f"{FARES}_x", "team": "delivery"})
    every = await bot.ask("ListDestinations", min_sequence=given.sequence)
    theirs = await bot.ask("ListDestinations", team="delivery")
    nobodys = await bot.ask("ListDestinations", team="riders")

    assert list(owners(every).items()) == [
        (FARES, "pricing"), (f"{FARES}_x", "delivery"), (TRIPS, "pricing"),
    ]  # fmt: skip
    assert (every.sequence, every.next_page_token) == (given.sequence, "")
    assert owners(theirs) == {f"{FARES}_x": "delivery"}
    assert owners(nobodys) == {}


async def test_destinations_have_pages_and_a_token_is_good_for_its_team(
    root: Caller, refusal: Refused
) -> None:
    await root.ask("RegisterTeam", team=team())
    names = [f"{FARES}_{number}" for number in range(5)]
    await writes_to(root, "pricing", *names)
    pages, more = [], ""
    while more or not pages:
        page = await root.ask("ListDestinations", team="pricing", page_size=2, page_token=more)
        pages.append(list(owners(page)))
        more = page.next_page_token
        if more:
            other = await refusal(root.ask("ListDestinations", page_token=more))
            assert [violation.reason for violation in other.violations] == ["INVALID_TOKEN"]
    wrong = await refusal(root.ask("ListDestinations", page_size=-1, min_sequence=-1))

    assert pages == [names[:2], names[2:4], names[4:]]
    assert [violation.field for violation in wrong.violations] == ["page_size", "min_sequence"]


async def test_a_destination_is_given_once_for_a_request_and_moves_with_a_version_each(
    root: Caller, refusal: Refused
) -> None:
    for name in ("pricing", "delivery"):
        await root.ask("RegisterTeam", team=team(name))
    asked = {"destination": {"name": FARES, "team": "pricing"}, "request_id": "r1", "expected_version": 0}
    first = await root.ask("GiveDestination", **asked)
    again = await root.ask("GiveDestination", **asked)
    taken = await refusal(root.ask("GiveDestination", **{**asked, "request_id": "r2"}))
    moved = await root.ask(
        "GiveDestination", destination={"name": FARES, "team": "delivery"}, expected_version=1
    )
    late = await refusal(root.ask("ReleaseDestination", name=FARES, expected_version=1))
    nobody = await refusal(root.ask("GiveDestination", destination={"name": FARES, "team": "delivry"}))
    platform = await refusal(root.ask("GiveDestination", destination={"name": FARES}))

    assert (first.version, first.sequence) == (again.version, again.sequence) == (1, 2)
    assert first.destination == access_pb2.Destination(name=FARES, team="pricing")
    assert (taken.code, taken.reason) == (grpc.StatusCode.ALREADY_EXISTS, "NAME_TAKEN")
    assert (moved.destination.team, moved.version) == ("delivery", 2)
    assert (late.code, late.metadata["actual_version"]) == (grpc.StatusCode.ABORTED, "2")
    assert (nobody.reason, nobody.metadata["suggestion"]) == ("NOT_FOUND", "delivery")
    assert (platform.reason, platform.metadata["kind"]) == ("NOT_FOUND", "team")
    assert await root.subjects() == ["pricing", "delivery", FARES, FARES]


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("", None),
        ("fares", None),
        ("influx://influx:8086/rows", None),
        ("influxdb://influx:8086/rows/fares", FARES),
        ("ftp://influx:8086/rows/fares", None),
        ("influx://influx:8086/rows/a b", "influx://influx:8086/rows/a%20b"),
        ("influx://influx:8086/rows/a%2a", "influx://influx:8086/rows/a%2A"),
        ("influx://influx:8086/rows*/fares", FARES),
        ("influx://influx:8086/rows/f\nares", "influx://influx:8086/rows/f%0Aares"),
        (f"{FARES}{'x' * 4_000}", None),
    ],
)
async def test_a_destination_is_given_by_the_one_text_it_has(
    root: Caller, refusal: Refused, name: str, suggestion: str | None
) -> None:
    await root.ask("RegisterTeam", team=team())
    given = {"destination": {"name": name, "team": "pricing"}, "expected_version": -1, "request_id": "a b"}
    error = await refusal(root.ask("GiveDestination", **given))
    first = error.violations[0]

    assert [violation.field for violation in error.violations] == [
        "destination.name", "request_id", "expected_version",
    ]  # fmt: skip
    assert first.reason == ("TOO_LARGE" if len(name) > 4_000 else "INVALID_DESTINATION")
    assert first.suggestion == suggestion
    assert owners(await root.ask("ListDestinations")) == {}


async def test_what_a_dagger_writes_to_is_released_when_no_dagger_writes_there(
    bot: Caller, root: Caller, refusal: Refused
) -> None:
    await writes_to(root, "pricing", FARES, TRIPS)
    used = await refusal(bot.ask("ReleaseDestination", name=FARES))
    await writes_to(root, "pricing", TRIPS)
    checked = await bot.ask("ReleaseDestination", name=FARES, validate_only=True)
    gone = await bot.ask("ReleaseDestination", name=FARES, request_id="r1", expected_version=1)
    again = await bot.ask("ReleaseDestination", name=FARES, request_id="r1", expected_version=1)
    twice = await refusal(bot.ask("ReleaseDestination", name=FARES))
    near = await refusal(bot.ask("ReleaseDestination", name=TRIPS[:-1]))
    wrong = await refusal(bot.ask("ReleaseDestination", name=TRIPS, expected_version=-1))

    assert (used.code, used.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "IN_USE")
    assert used.metadata["daggers"] == "of_pricing"
    assert used.message == (
        f"destination {FARES} is used by dagger of_pricing: delete or change what uses it first"
    )
    assert checked.sequence == 0
    assert gone.sequence == again.sequence == 4
    assert (twice.code, twice.message) == (grpc.StatusCode.NOT_FOUND, f"no team owns {FARES}")
    assert near.metadata["suggestion"] == TRIPS
    assert [violation.field for violation in wrong.violations] == ["expected_version"]
    assert owners(await root.ask("ListDestinations")) == {TRIPS: "pricing"}


async def test_an_owner_releases_what_is_its_teams_and_gives_nothing(
    root: Caller, bot: Caller, refusal: Refused
) -> None:
    await root.ask("RegisterTeam", team=team("delivery"))
    await root.ask("GiveDestination", destination={"name": FARES, "team": "pricing"})
    await root.ask("GiveDestination", destination={"name": TRIPS, "team": "delivery"})
    editor = await root.ask("CreateServiceAccount", name="editor", team="pricing", role=EDITOR)
    ours = await refusal(root.with_(editor.token).ask("ReleaseDestination", name=FARES))
    theirs = await refusal(bot.ask("ReleaseDestination", name=TRIPS))
    to_us = await refusal(bot.ask("GiveDestination", destination={"name": TRIPS, "team": "pricing"}))
    nobodys = await refusal(bot.ask("GiveDestination", destination={"name": f"{FARES}*", "team": "pricing"}))
    await bot.ask("ReleaseDestination", name=FARES)
    await root.ask("ReleaseDestination", name=TRIPS)

    for error, action in ((ours, "RELEASE"), (theirs, "RELEASE"), (to_us, "GIVE"), (nobodys, "GIVE")):
        assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
        assert error.metadata["action"] == action
    assert ours.message == (
        "account:editor may not release destinations of team pricing: that needs the role owner, which an"
        " owner (account:boss) can grant"
    )
    assert "may not give destinations to teams: that needs an administrator" in to_us.message
    assert owners(await root.ask("ListDestinations")) == {}


async def test_destinations_are_given_and_released_by_who_may_also_while_the_gateway_observes(
    harness: Any, refusal: Refused
) -> None:
    async with harness.running(tokens=lambda: FILE, enforce=False) as client:
        root = Caller(client)
        for name in ("pricing", "delivery"):
            await root.ask("RegisterTeam", team=team(name))
        await root.ask("GiveDestination", destination={"name": FARES, "team": "pricing"})
        token = (await root.ask("CreateServiceAccount", name="spy", team="delivery", role=OWNER)).token
        spy = root.with_(token)
        errors = [
            await refusal(spy.ask("GiveDestination", destination={"name": FARES, "team": "delivery"})),
            await refusal(spy.ask("ReleaseDestination", name=FARES)),
        ]

        assert [error.code for error in errors] == [grpc.StatusCode.PERMISSION_DENIED] * 2
        assert owners(await spy.ask("ListDestinations")) == {FARES: "pricing"}


async def test_a_team_that_owns_a_destination_stays_until_it_is_released(
    root: Caller, refusal: Refused
) -> None:
    await root.ask("RegisterTeam", team=team())
    await root.ask("GiveDestination", destination={"name": FARES, "team": "pricing"})
    used = await refusal(root.ask("DeleteTeam", name="pricing"))
    await root.ask("ReleaseDestination", name=FARES)
    await root.ask("DeleteTeam", name="pricing")

    assert (used.reason, used.metadata["destinations"]) == ("IN_USE", FARES)
