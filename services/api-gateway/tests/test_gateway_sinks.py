"""SinkService through a gateway, and the secrets that specifications name or find by themselves."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, events_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2

from api_gateway.validate.reachability import ReachLimits
from chassis.egress.addresses import EgressRules
from chassis.errors import ApiError

pb = gateway_pb2
ROOT = "a-token-of-the-first-hour"
FILE = {hashlib.sha256(ROOT.encode()).digest(): "root"}
ROLES = {
    "viewer": access_pb2.ROLE_VIEWER,
    "editor": access_pb2.ROLE_EDITOR,
    "owner": access_pb2.ROLE_OWNER,
}
CANARY = spec_pb2.SecretRef(file="/etc/daggers/others/canary")
WAREHOUSE = "http://warehouse:8086"
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]


class Caller:
    """Every method of a gateway, with a token."""

    def __init__(self, channel: Any, token: str) -> None:
        self._stubs = [
            gateway_pb2_grpc.SinkServiceStub(channel),
            gateway_pb2_grpc.AccessServiceStub(channel),
            gateway_pb2_grpc.CatalogServiceStub(channel),
            gateway_pb2_grpc.DaggerServiceStub(channel),
        ]
        self._metadata = (("authorization", f"Bearer {token}"),)

    def ask(self, method: str, **said: Any) -> Any:
        stub = next(stub for stub in self._stubs if hasattr(stub, method))
        request = getattr(pb, f"{method}Request")(**said)
        return getattr(stub, method)(request, timeout=30, metadata=self._metadata)


@dataclass
class World:
    """A gateway with a team and its three roles, and an owner of another team."""

    client: Any
    harness: Any
    root: Caller
    viewer: Caller
    editor: Caller
    owner: Caller
    stranger: Caller

    async def records(self) -> list[Any]:
        return [record.message async for record in self.client.log.replay()]

    async def audited(self, method: str) -> Any:
        """The first call of a method that is audited."""
        async for record in self.harness.audits.follow():
            if record.message.method.endswith(f"/{method}"):
                return record.message
        raise AssertionError


@asynccontextmanager
async def begun(harness: Any, samples: Any, *, enforce: bool) -> AsyncIterator[World]:
    # Names that no resolver knows: an administrator vouches for them.
    bounds = ReachLimits(EgressRules.parse("mine,warehouse,kafka"))
    async with harness.running(tokens=lambda: FILE, enforce=enforce, bounds=bounds) as client:
        root = Caller(client.channel, ROOT)
        bots = {}
        for team in ("pricing", "others"):
            await root.ask("RegisterTeam", team=access_pb2.Team(name=team))
        for name, team in (*((role, "pricing") for role in ROLES), ("stranger", "others")):
            said = {"name": f"{name}-bot", "team": team, "role": ROLES.get(name, ROLES["owner"])}
            made = await root.ask("CreateServiceAccount", **said)
            bots[name] = Caller(client.channel, made.token)
        await root.ask("RegisterCluster", cluster=samples.cluster())
        await root.ask("RegisterSchema", schema=spec_pb2.Schema(files=samples.files()))
        await root.ask("RegisterStream", stream=samples.stream())
        yield World(client, harness, root, **bots)


@pytest.fixture
async def world(harness: Any, samples: Any) -> AsyncIterator[World]:
    async with begun(harness, samples, enforce=True) as made:
        yield made


@pytest.fixture
async def observing(harness: Any, samples: Any) -> AsyncIterator[World]:
    async with begun(harness, samples, enforce=False) as made:
        yield made


def secret(**said: Any) -> spec_pb2.Secret:
    return spec_pb2.Secret(
        **{
            "name": "warehouse-token",
            "team": "pricing",
            "place": {"file": "/etc/daggers/pricing/token"},
            "addresses": [WAREHOUSE],
            **said,
        }
    )


def influx(**address: Any) -> spec_pb2.Sink:
    return spec_pb2.Sink(influx={"address": {"bucket": "rows", **address}})


def sink(name: str = "warehouse", **said: Any) -> spec_pb2.RegisteredSink:
    whole = influx(url=WAREHOUSE, token={"name": "warehouse-token"})
    return spec_pb2.RegisteredSink(**{"name": name, "sink": whole, "teams": ["pricing"], **said})


def spec(samples: Any, *sinks: spec_pb2.Sink) -> spec_pb2.DaggerSpec:
    made: spec_pb2.DaggerSpec = samples.spec()
    del made.sinks[:]
    made.sinks.extend(sinks)
    return made


async def test_an_owner_registers_a_secret_and_a_sink_and_a_dagger_writes_there(
    world: World, samples: Any
) -> None:
    first = await world.owner.ask("RegisterSecret", secret=secret(), request_id="r1")
    again = await world.owner.ask("RegisterSecret", secret=secret(), request_id="r1")
    registered = await world.owner.ask("RegisterSink", sink=sink(limit={"rows_per_second": 5}))
    asked = spec_pb2.Sink(influx={"measurement": "m"}, registered="warehouse", name="main")
    made = await world.editor.ask("CreateDagger", name="counts", spec=spec(samples, asked))
    [shown] = made.dagger.sinks

    assert (first.version, first.sequence) == (again.version, again.sequence) == (1, first.sequence)
    assert (registered.sink, registered.version) == (sink(limit={"rows_per_second": 5}), 1)
    assert made.dagger.spec.sinks[0] == asked
    assert (shown.sink.influx.address.url, shown.sink.influx.address.bucket) == (WAREHOUSE, "rows")
    assert b"/etc/daggers" not in made.SerializeToString()


async def test_an_administrators_sink_is_exempt_and_an_owners_is_not_whatever_it_says(world: World) -> None:
    await world.owner.ask("RegisterSecret", secret=secret())
    owners = await world.owner.ask("RegisterSink", sink=sink(exempt=True))
    roots = await world.root.ask("RegisterSink", sink=sink())
    back = await world.owner.ask("RegisterSink", sink=sink())

    assert [each.sink.exempt for each in (owners, roots, back)] == [False, True, False]


async def test_everything_that_is_wrong_with_a_secret_is_told_at_once(world: World, refusal: Refused) -> None:
    wrong = secret(name="T", place={"file": "/proc/self/environ"}, addresses=["warehouse"])
    error = await refusal(world.root.ask("RegisterSecret", secret=wrong, request_id="a b"))

    assert [(violation.field, violation.reason) for violation in error.violations] == [
        ("secret.name", "INVALID_NAME"),
        ("secret.place.file", "INVALID_REFERENCE"),
        ("secret.addresses[0]", "INVALID_ADDRESS"),
        ("request_id", "INVALID_REQUEST_ID"),
    ]


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"place": CANARY}, ("secret.place", "FORBIDDEN_PLACE")),
        ({"place": {"env": "AWS_SECRET_ACCESS_KEY"}}, ("secret.place", "FORBIDDEN_PLACE")),
        ({"place": {"file": "/etc/daggers/pricing/../others/canary"}}, ("secret.place", "FORBIDDEN_PLACE")),
        ({"addresses": [WAREHOUSE, "http://mine:8086"]}, ("secret.addresses[1]", "FORBIDDEN_ADDRESS")),
    ],
)
async def test_an_owner_registers_no_secret_of_another_place_or_for_another_address(
    world: World, refusal: Refused, said: dict[str, Any], wrong: tuple[str, str]
) -> None:
    error = await refusal(world.owner.ask("RegisterSecret", secret=secret(**said)))
    administrators = await world.root.ask("RegisterSecret", secret=secret(**said))

    assert [(violation.field, violation.reason) for violation in error.violations] == [wrong]
    assert administrators.version == 1


async def test_another_team_has_no_secret_in_a_place_of_this_one(world: World, refusal: Refused) -> None:
    error = await refusal(world.stranger.ask("RegisterSecret", secret=secret(team="others")))

    assert [violation.field for violation in error.violations] == ["secret.addresses[0]"]
    assert "allowed: none" in error.violations[0].message


@pytest.mark.parametrize("enforced", [True, False])
async def test_who_is_no_owner_registers_nothing_also_while_a_gateway_observes(
    harness: Any, samples: Any, refusal: Refused, enforced: bool
) -> None:
    async with begun(harness, samples, enforce=enforced) as world:
        await world.owner.ask("RegisterSecret", secret=secret())
        await world.root.ask("RegisterSink", sink=sink("everybodys", teams=[]))
        refused = [
            await refusal(world.editor.ask("RegisterSecret", secret=secret())),
            await refusal(world.stranger.ask("RegisterSecret", secret=secret(team="others"))),
            await refusal(world.stranger.ask("DeleteSecret", name="warehouse-token")),
            await refusal(world.owner.ask("RegisterSecret", secret=secret(name="platforms", team=""))),
            await refusal(world.owner.ask("RegisterSink", sink=sink(teams=["pricing", "others"]))),
            await refusal(world.owner.ask("RegisterSink", sink=sink("everybodys"))),
            await refusal(world.owner.ask("DeleteSink", name="everybodys")),
        ]

    assert {(each.code, each.reason) for each in refused} == {
        (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
    }


async def test_where_a_secret_is_stands_in_answers_for_its_team_alone(observing: World) -> None:
    await observing.owner.ask("RegisterSecret", secret=secret())
    shown = {}
    for name in ("root", "owner", "viewer", "stranger"):
        one = await getattr(observing, name).ask("GetSecret", name="warehouse-token")
        [listed] = (await getattr(observing, name).ask("ListSecrets")).secrets
        shown[name] = (one.secret.place.file, listed.place.file)
        assert list(one.secret.addresses) == [WAREHOUSE]

    there = ("/etc/daggers/pricing/token",) * 2
    assert shown == {"root": there, "owner": there, "viewer": there, "stranger": ("", "")}


async def test_where_clusters_have_their_secrets_is_shown_to_administrators_alone(
    world: World, samples: Any
) -> None:
    cluster = samples.cluster()
    cluster.kafka.secret_properties["sasl.password"].CopyFrom(CANARY)
    await world.root.ask("RegisterCluster", cluster=cluster)
    listed = await world.owner.ask("ListClusters")
    got = await world.owner.ask("GetCluster", name=cluster.name)
    administrators = await world.root.ask("ListClusters")

    assert CANARY.file.encode() in administrators.SerializeToString()
    assert CANARY.file.encode() not in listed.SerializeToString() + got.SerializeToString()


async def test_lists_have_pages_and_unknown_names_are_told_with_the_one_that_is_near(
    world: World, refusal: Refused
) -> None:
    for name in ("one-token", "two-token", "warehouse-token"):
        await world.owner.ask("RegisterSecret", secret=secret(name=name))
    await world.owner.ask("RegisterSink", sink=sink())
    page = await world.viewer.ask("ListSecrets", page_size=2)
    rest = await world.viewer.ask("ListSecrets", page_size=2, page_token=page.next_page_token)
    sinks = await world.viewer.ask("ListSinks")
    missing = await refusal(world.viewer.ask("GetSecret", name="tow-token"))
    other = await refusal(world.viewer.ask("ListSinks", page_token=page.next_page_token))

    assert [each.name for each in (*page.secrets, *rest.secrets)] == [
        "one-token",
        "two-token",
        "warehouse-token",
    ]
    assert [each.name for each in sinks.sinks] == ["warehouse"]
    assert (missing.code, missing.metadata["suggestion"]) == (grpc.StatusCode.NOT_FOUND, "two-token")
    assert [violation.reason for violation in other.violations] == ["INVALID_TOKEN"]


async def test_what_is_used_stays_and_goes_when_nothing_names_it(world: World, refusal: Refused) -> None:
    await world.owner.ask("RegisterSecret", secret=secret())
    await world.owner.ask("RegisterSink", sink=sink())
    used = await refusal(world.owner.ask("DeleteSecret", name="warehouse-token"))
    checked = await world.owner.ask("DeleteSink", name="warehouse", validate_only=True)
    await world.owner.ask("DeleteSink", name="warehouse")
    await world.owner.ask("DeleteSecret", name="warehouse-token")

    assert (used.reason, used.metadata["sinks"]) == ("IN_USE", "warehouse")
    assert checked.sequence == 0
    assert [type(record) for record in (await world.records())[-2:]] == [
        events_pb2.SinkRemoved,
        events_pb2.SecretRemoved,
    ]


async def test_a_registered_sink_keeps_its_kind(world: World, refusal: Refused) -> None:
    await world.owner.ask("RegisterSecret", secret=secret())
    await world.owner.ask("RegisterSink", sink=sink())
    topics = spec_pb2.Sink(kafka={"cluster": "local"})
    error = await refusal(world.owner.ask("RegisterSink", sink=sink(sink=topics)))

    assert [(violation.field, violation.reason) for violation in error.violations] == [
        ("sink.sink", "WRONG_KIND")
    ]


async def test_names_that_a_specification_gets_wrong_are_told_with_the_near_ones(
    world: World, samples: Any, refusal: Refused
) -> None:
    await world.owner.ask("RegisterSecret", secret=secret())
    await world.owner.ask("RegisterSink", sink=sink())
    asked = spec(
        samples,
        spec_pb2.Sink(influx={}, registered="warehose"),
        influx(url=WAREHOUSE, token={"name": "warehouse-tokn"}),
        influx(url="http://mine:8086", token={"name": "warehouse-token"}),
    )
    error = await refusal(world.editor.ask("CreateDagger", name="counts", spec=asked))
    theirs = samples.spec()
    theirs.CopyFrom(spec(samples, spec_pb2.Sink(influx={}, registered="warehouse")))
    theirs.team = "others"
    stranger = await refusal(world.stranger.ask("CreateDagger", name="theirs", spec=theirs))

    assert [(violation.field, violation.reason, violation.suggestion) for violation in error.violations] == [
        ("spec.sinks[0].registered", "UNKNOWN_SINK", "warehouse"),
        ("spec.sinks[1].influx.address.token", "UNKNOWN_SECRET", "warehouse-token"),
        ("spec.sinks[2].influx.address.token", "SECRET_ADDRESS", None),
    ]
    assert [violation.reason for violation in stranger.violations] == ["SINK_FORBIDDEN"]


async def test_a_cluster_names_no_secret_that_is_not_for_its_address(
    world: World, samples: Any, refusal: Refused
) -> None:
    await world.owner.ask("RegisterSecret", secret=secret())
    cluster = samples.cluster()
    cluster.kafka.secret_properties["sasl.password"].name = "warehouse-token"
    error = await refusal(world.root.ask("RegisterCluster", cluster=cluster))

    assert [(violation.field, violation.reason) for violation in error.violations] == [
        ('cluster.kafka.secret_properties["sasl.password"]', "SECRET_ADDRESS")
    ]


# ---- What specifications find by themselves: the first hole of access.md ----------------------------------


async def test_a_canary_is_sent_to_no_address_of_a_tenants_own(
    world: World, samples: Any, refusal: Refused
) -> None:
    places = [CANARY, spec_pb2.SecretRef(env="AWS_SECRET_ACCESS_KEY")]
    sent = [spec(samples, influx(url="http://mine:8086", token=place)) for place in places]
    refused = [
        await refusal(caller.ask(method, name="counts", spec=each))
        for caller in (world.editor, world.owner)
        for method in ("CreateDagger", "ApplyDagger", "UpdateDagger", "Validate")
        for each in sent
    ]

    assert {(each.code, each.reason) for each in refused} == {
        (grpc.StatusCode.PERMISSION_DENIED, "SECRET_PLACE")
    }
    assert refused[0].metadata["field"] == "spec.sinks[0].influx.address.token"
    assert not [record for record in await world.records() if isinstance(record, events_pb2.DaggerRequested)]


async def test_what_an_administrator_allows_a_team_is_sent_where_it_may_go(
    world: World, samples: Any, refusal: Refused
) -> None:
    own = {"file": "/etc/daggers/pricing/token"}
    there = await world.editor.ask("Validate", spec=spec(samples, influx(url=WAREHOUSE, token=own)))
    mine = spec(samples, influx(url="http://mine:8086", token=own))
    elsewhere = await refusal(world.editor.ask("Validate", spec=mine))

    assert not there.findings
    assert elsewhere.reason == "SECRET_PLACE"


async def test_what_a_dagger_sends_already_it_goes_on_sending_and_nothing_more(
    world: World, samples: Any, refusal: Refused
) -> None:
    running = spec(samples, influx(url="http://mine:8086", token=CANARY))
    await world.root.ask("CreateDagger", name="counts", spec=running)
    edited = spec(samples, *running.sinks, spec_pb2.Sink(log={}))
    revised = await world.editor.ask("UpdateDagger", name="counts", spec=edited)
    other = spec(samples, influx(url="http://mine:9999", token=CANARY))
    moved = await refusal(world.editor.ask("UpdateDagger", name="counts", spec=other))

    assert revised.dagger.version == 2
    assert moved.reason == "SECRET_PLACE"


async def test_while_a_gateway_observes_it_is_audited_and_let_through(observing: World, samples: Any) -> None:
    asked = spec(samples, influx(url="http://mine:8086", token=CANARY))
    made = await observing.editor.ask("CreateDagger", name="counts", spec=asked)
    told = await observing.audited("CreateDagger")

    assert made.dagger.version == 1
    assert (told.allowed, told.refused, told.reason) == (False, False, "SECRET_PLACE")
    assert told.principal == "account:editor-bot"
