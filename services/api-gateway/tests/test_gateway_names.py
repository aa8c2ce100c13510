"""Names without number: those of callers fill neither a gateway's memory nor what it tells Prometheus."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import grpc
import pytest
from daggers.v1 import access_pb2, events_pb2, gateway_pb2, spec_pb2
from tests.sensitiveworld import asked, two_streams

from api_gateway.auth.destination_ownership import Ownership
from api_gateway.auth.unjudged_destinations import UnjudgedDestinations
from chassis.errors import ApiError
from chassis.metrics import Metrics
from daggerspec.destination import parse
from eventlog.testing import record
from fleet import Fleet
from fleet.fold import quotas
from fleet.fold.phases import DELETED

pb = gateway_pb2
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]
META = events_pb2.RequestMeta(actor="root")
MARK = "callers-name-"
LOOKUPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("GetDagger", {"name": "{}"}),
    ("ListRevisions", {"name": "{}"}),
    ("StopDagger", {"name": "{}"}),
    ("GetQuarantined", {"dagger": "{}", "id": "{}"}),
    ("ReplayQuarantined", {"dagger": "{}"}),
    ("ListDaggers", {"filter": "name={}"}),
    ("GetStream", {"name": "{}"}),
    ("DescribeStream", {"name": "{}"}),
    ("GetTeamUsage", {"team": "{}"}),
    ("ListDestinations", {"team": "{}"}),
    ("ReleaseDestination", {"name": "influx://{}:8086/b/{}"}),
    ("SetStreamGrant", {"grant": access_pb2.StreamGrant(stream="{}")}),
)
"""Calls, each with a name in place of {}."""


def named(what: Any, name: str) -> Any:
    if isinstance(what, access_pb2.StreamGrant):
        return access_pb2.StreamGrant(stream=name)
    return what.replace("{}", name)


def holders() -> list[int]:
    """How many names each container of this process holds that holds any, but for what stands in topics."""
    gc.collect()
    counts = []
    for held in gc.get_objects():
        if isinstance(held, dict | set | frozenset | list | deque) and len(held) > 1:
            # Records of a log are tuples of their own kind: the topics of these tests stand in this process.
            count = sum(type(key) in (str, bytes, tuple) and _is_marked(key) for key in [*held])
            if count:
                counts.append(count)
    return counts


def _is_marked(key: Any) -> bool:
    if isinstance(key, tuple):
        return any(isinstance(part, str) and MARK in part for part in key)
    return MARK in key if isinstance(key, str) else MARK.encode() in key


async def test_unknown_names_are_remembered_nowhere(harness: Any, samples: Any) -> None:
    """Of 400 names, each in every kind of call, and of specifications that are checked and planned."""
    names = 400
    async with two_streams(harness, samples) as (_, seeing, other):
        for number in range(names):
            name = f"{MARK}{number}"
            for method, said in LOOKUPS:
                with suppress(grpc.aio.AioRpcError):
                    await seeing.ask(method, **{key: named(value, name) for key, value in said.items()})
            if number % 8 == 0:
                spec = asked(samples, f"SELECT status AS `{name}`, 1 AS n FROM `data_stream`", name)
                spec.streams[0].stream = "plain"
                await other.ask("Validate", name=name, spec=spec)
                spec.team = name
                with suppress(grpc.aio.AioRpcError):
                    await other.ask("Validate", name=name, spec=spec)
        held = holders()
        kept = [f"{MARK}{number}" for number in range(300)]
        with_kept = holders()

    assert max(held, default=0) <= 256
    assert len(kept) in with_kept  # else nobody would have found any


async def test_no_name_and_no_method_that_is_asked_for_makes_a_series(harness: Any, samples: Any) -> None:
    metrics = Metrics("api-gateway")

    def series() -> set[tuple[str, str]]:
        return {
            (sample.name, str(sorted(sample.labels.items())))
            for family in metrics.registry.collect()
            for sample in family.samples
        }

    async def ask(numbers: Collection[int]) -> None:
        for number in numbers:
            name = f"{MARK}{number}"
            for call in (
                client.daggers.GetDagger(pb.GetDaggerRequest(name=name), timeout=10),
                client.channel.unary_unary(f"/daggers.v1.DaggerService/{name}")(b"", timeout=10),
                client.channel.unary_unary(f"/{name}/GetDagger")(b"", timeout=10),
            ):
                with pytest.raises(grpc.aio.AioRpcError):
                    await call

    async with harness.running(counted=metrics.calls()) as client:
        await ask(range(1))
        first = series()
        await ask(range(1, 300))
        later = series()

    assert later == first
    assert not any(MARK in text for _, text in later)


async def test_a_team_creates_no_dagger_under_a_new_name_beyond_its_bound(
    harness: Any, samples: Any, refusal: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By no method, and nothing is written; what has a name already may be asked for."""
    monkeypatch.setattr(quotas, "NAMES", 2)
    async with two_streams(harness, samples) as (_, _, other):
        fleet = other.client.gateway.fold.fleet
        for name in ("first", "second"):
            await other.ask("CreateDagger", name=name, spec=plain(samples, name))
            fleet.put(replace(fleet.daggers[name], phase=DELETED))
        before = await other.client.log.end()
        errors = [
            await refusal(other.ask(method, name="third", spec=plain(samples, "first")))
            for method in ("CreateDagger", "ApplyDagger", "PlanDagger")
        ]
        errors.append(await refusal(other.ask("CreateDagger", name="first", spec=plain(samples, "third"))))
        wrote = await other.client.log.end() - before
        await other.ask("CreateDagger", name="first", spec=plain(samples, "second"))
        await other.ask("CreateDagger", name="third", spec=plain(samples, "first"))

    assert {(error.code, error.reason) for error in errors} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "TEAM_QUOTA")
    }
    assert ["names of deleted daggers" in error.message for error in errors] == [True, True, True, False]
    assert "has 2 destinations" in errors[-1].message
    assert wrote == 0


def plain(samples: Any, place: str) -> spec_pb2.DaggerSpec:
    return asked(samples, "SELECT status AS a, 1 AS n FROM `data_stream`", place, stream="plain")


# ---- What is worked out of the log -------------------------------------------------------------------------


class Log:
    """A fold of one dagger, which writes to another place each time."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.write(events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name="alpha")))
        cluster = spec_pb2.Cluster(name="local", influx={"url": "http://db:8086", "bucket": "b"})
        self.write(events_pb2.ClusterRegistered(meta=META, cluster=cluster))

    def write(self, event: Any) -> None:
        sequence = self.fleet.sequence + 1
        self.fleet.apply(record(event, sequence=sequence, id=f"r-{sequence}"))

    def revise(self, number: int, *destinations: str) -> None:
        spec = spec_pb2.DaggerSpec(team="alpha", cluster="local", sql="SELECT 1")
        spec.sinks.add().influx.measurement = f"place-{number}"
        request = events_pb2.DaggerRequested(meta=META, name="one", spec=spec, destinations=destinations)
        self.write(request)


def test_places_that_a_dagger_has_left_are_no_entries() -> None:
    """As a gateway that only observes has them, where nobody has judged what is written to."""
    log = Log()
    unjudged = UnjudgedDestinations(log.fleet)
    most = 0
    for number in range(2_000):
        log.revise(number)
        place = parse(f"influx://db:8086/b/place-{number}")
        assert [dagger.name for dagger, _ in unjudged.find_overlaps(place)] == ["one"]
        sizes = cast(Mapping[str, Any], vars(unjudged))
        most = max(most, *(len(sizes[name]) for name in ("_exact", "_prefixes", "_written")))

    assert most == 1


async def test_servers_of_destinations_that_were_released_are_not_looked_up() -> None:
    log, asked_for = Log(), set()

    async def addresses(server: str) -> list[Any]:
        asked_for.add(server)
        return []

    ownership = Ownership(log.fleet, addresses)
    for number in range(2_000):
        text = f"influx://db-{number}:8086/b/fares"
        log.revise(1, text)
        found = [place async for place in ownership.aliases(parse(text))]
        assert [str(place) for place in found] == [text]
        if number:
            log.fleet.catalogue.remove("destination", f"influx://db-{number - 1}:8086/b/fares", number)
    asked_for.clear()
    [_ async for _ in ownership.aliases(parse("influx://db:8086/b/fares"))]

    assert len(asked_for) <= 110
