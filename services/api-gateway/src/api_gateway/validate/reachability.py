"""Judge what a specification may reach: addresses, topics of other teams, groups of other services.

A request is judged by its caller. What a dagger reaches already stays allowed: a caller who changes something
else of it is not judged by that again. A gateway that observes reports what it would refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from daggers.v1 import spec_pb2

from access import Principal
from access.decision import is_administrator
from api_gateway.auth.destination_ownership import Ownership
from api_gateway.auth.destination_ownership import destinations as written_to
from api_gateway.validate.topic_ownership import (
    UNKNOWN,
    Kafkas,
    hidden_topics,
    of_others,
    of_streams,
    read,
    unclear,
    written_topics,
)
from chassis.egress.addresses import PORTS, Address, EgressRules, refusal
from chassis.egress.pools import resolve
from chassis.egress.proxies import Proxies
from chassis.interceptors import Context
from daggerspec import defaults, destinations, folders, sinks, topics
from daggerspec.kind import ValidationContext
from daggerspec.violation import Violation
from fleet import Dagger, Fleet, Refusal
from fleet.fold.resolve import FleetCatalogue

_PATIENCE_S: Final = 2.0
_REGISTERED: Final = " by `daggers sink apply`, and the sink says `registered: NAME` then"
_RESOLVERS: Final = 4
_UNKNOWN_NAME: Final = (
    "its name leads nowhere that the gateway can find, so nobody can judge where drivers would connect, and"
    " it is not in DAGGERS_ALLOWED_HOSTS"
)
_TEAM: Final = "{team}"
KafkaId: TypeAlias = Callable[[str, Context], Awaitable[str]]
"""Returns the id of the Kafka of a cluster, by the cluster's name; empty where the Kafka tells none."""


@dataclass(frozen=True, slots=True)
class ReachLimits:
    """Limits that an administrator sets for tenants."""

    allowed: EgressRules = field(default_factory=EgressRules)
    """Addresses and hosts that may be reached."""
    groups: Sequence[str] = ()
    """Prefixes of consumer groups; `{team}` stands for the dagger's team."""
    folders: Sequence[str] = ()
    """Folders below which sinks may write files (`daggerspec.folders`)."""
    proxies: Proxies = field(default_factory=Proxies)
    """Proxies by which connections leave. A host that only the proxy can resolve is judged by it."""


@dataclass(frozen=True, slots=True)
class ReachVerdict:
    """Verdict on what a specification reaches."""

    wrong: Sequence[Violation] = ()
    """Violations that are refused."""
    observed: Sequence[Violation] = ()
    """Violations that would be refused if the gateway enforced, and facts that could not be determined."""
    destinations: Sequence[str] = ()
    """Destinations of its sinks, which become its team's; none while the gateway observes, or without a team.
    """


class Reach:
    """Judges what specifications reach."""

    def __init__(
        self,
        fleet: Fleet,
        kafka_id: KafkaId,
        bounds: ReachLimits,
        *,
        enforce: bool,
        resolver: Callable[[str, int], list[Address]] = resolve,
    ) -> None:
        """Create the thread pool for resolving. `resolver` returns the addresses of a host; it may block."""
        self._fleet, self._kafka_id, self._bounds, self._enforce = fleet, kafka_id, bounds, enforce
        self._resolver = resolver
        # a pool of its own: slow name servers must not delay calls that wait for the database
        self._threads = ThreadPoolExecutor(_RESOLVERS, "reach")
        self.ownership = Ownership(fleet, self._addresses_of)

    async def check_spec(
        self,
        path: str,
        name: str,
        spec: spec_pb2.DaggerSpec,
        resolved_sinks: Sequence[spec_pb2.ResolvedSink],
        who: Principal,
        context: Context,
    ) -> ReachVerdict:
        """Judge what `who` reaches by the specification of dagger `name`, which has its defaults;
        `resolved_sinks` have their addresses.
        """
        living = self._fleet.living(name)
        before = defaults.fill_defaults(name, living.spec) if living else spec_pb2.DaggerSpec()
        ruled = {
            f"{path}.sinks[{number}]": sink.sink
            for number, sink in enumerate(resolved_sinks)
            if sink.HasField("egress")
        }
        had = self._resolve_sinks(name, before) if ruled else ()
        refusals = [address async for address in self._addresses(ruled, had)]
        if spec.consumer_group != before.consumer_group and not is_administrator(who, self._fleet):
            refusals += foreign_group(f"{path}.consumer_group", name, spec, self._bounds.groups)
        outside = list(self._folders(ruled, had, spec.team))
        loops, others = await self._topics(path, name, spec, before, who, context)
        unknown = [violation for violation in (*loops, *others) if violation.reason == UNKNOWN]
        wrong = [*outside, *(loop for loop in loops if loop.reason != UNKNOWN)]
        refusals += [violation for violation in others if violation.reason != UNKNOWN]
        judged_fields = {violation.field for violation in others}
        foreign = self.ownership.violations(path, name, spec, resolved_sinks)
        refusals += [violation async for violation in foreign if violation.field not in judged_fields]
        if self._enforce:
            return ReachVerdict((*wrong, *refusals), unknown, written_to(resolved_sinks) if spec.team else ())
        return ReachVerdict(wrong, (*refusals, *unknown))

    async def _addresses(
        self, ruled: Mapping[str, spec_pb2.Sink], had: Sequence[spec_pb2.Sink]
    ) -> AsyncIterator[Violation]:
        """Yield a violation for each unregistered address that leads where tenants may not go."""
        servers_before = {server for sink in had for server in destinations.servers(sink).items()}
        for path, sink in ruled.items():
            for violation in await self._refused_servers(path, sink, servers_before):
                yield violation

    def _folders(
        self, ruled: Mapping[str, spec_pb2.Sink], had: Sequence[spec_pb2.Sink], team: str
    ) -> Iterator[Violation]:
        """Yield a violation for each file sink outside of the allowed folders, which is refused in both
        modes.
        """
        folders_before = {destinations.written_below(sink) for sink in had}
        for path, sink in ruled.items():
            if destinations.written_below(sink) not in folders_before:
                yield from self._outside(path, sink, team)

    def _outside(self, path: str, sink: spec_pb2.Sink, team: str) -> Iterator[Violation]:
        """Yield why a sink of a team may not write below its folder."""
        field, folder = destinations.written_below(sink) or ("", "")
        allowed = folders.of(team, self._bounds.folders)
        if not folders.is_plain(folder) or folders.holding(allowed, folder):
            return  # the rule book reports what is no folder
        where = f"only below {', '.join(allowed)}" if allowed else "files are written nowhere"
        text = f"may not be written to, {where}: an administrator can allow it (DAGGERS_ALLOWED_FOLDERS)"
        yield Violation(f"{path}.{field}", f"{text}, or register the sink", "FOLDER_REFUSED")

    async def check_registered(self, path: str, sink: spec_pb2.RegisteredSink) -> ReachVerdict:
        """Judge what a sink reaches that is to be registered; administrators may register any."""
        if sink.exempt:
            return ReachVerdict()
        addresses: list[tuple[str, spec_pb2.Sink, Sequence[str]]] = [(path, sink.sink, sink.teams)]
        for number, parts in enumerate(sink.by_team):
            where = f"{path.removesuffix('.sink')}.by_team[{number}].sink"
            addresses.append((where, sinks.of_team(sink, parts.team), [parts.team]))
        outside, refusals = list[Violation](), list[Violation]()
        for where, address, teams in addresses:
            outside += [wrong for team in teams for wrong in self._outside(where, address, team)][:1]
            refusals += await self._refused_servers(where, address)
        return ReachVerdict([*outside, *refusals]) if self._enforce else ReachVerdict(outside, refusals)

    def _resolve_sinks(self, name: str, spec: spec_pb2.DaggerSpec) -> Sequence[spec_pb2.Sink]:
        """Return the sinks of a specification with their addresses."""
        context = ValidationContext(name, spec, FleetCatalogue(self._fleet))
        return [resolved.sink for resolved, _ in sinks.all_resolved("", context)]

    async def _refused_servers(
        self, path: str, sink: spec_pb2.Sink, allowed_before: Set[tuple[str, str]] = frozenset()
    ) -> Sequence[Violation]:
        """Return violations for servers that a sink may not connect to, or request tokens at; none for
        `allowed_before`.
        """
        violations = []
        for place, url in destinations.servers(sink).items():
            why = None if (place, url) in allowed_before else await self._refusal(url)
            if why is not None:
                text = f"may not be reached: {why}; an administrator can register it{_REGISTERED}"
                violations.append(Violation(f"{path}.{place}", text, "ADDRESS_REFUSED"))
        return violations

    async def _refusal(self, url: str) -> str | None:
        """Return why nothing may be sent to a URL, or to host:port over TLS; None where it may."""
        try:
            parts = urlsplit(url if "://" in url else f"https://{url}")
            host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
        except ValueError:
            return None  # the rule book reports what is no URL
        allowed = self._bounds.allowed
        try:
            addresses = await self._resolve(host, port)
        except (OSError, ValueError):
            if not self._enforce:
                return None  # drivers may resolve the host, and judge each connection
            by_proxy = self._bounds.proxies.of(parts.scheme, host, port) is not None
            if not by_proxy and host and not allowed.has(host, port):
                return _UNKNOWN_NAME
            addresses = []
        return refusal(parts.scheme, host, port, addresses, allowed)

    async def _resolve(self, host: str, port: int) -> list[Address]:
        """Resolve a host to its addresses. Raises: OSError, ValueError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_PATIENCE_S):
            return await loop.run_in_executor(self._threads, self._resolver, host, port)

    async def _addresses_of(self, server: str) -> Sequence[Address]:
        """Return the addresses of host:port; none where it cannot be resolved here."""
        host, _, port = server.rpartition(":")
        try:
            return await self._resolve(host.strip("[]"), int(port))
        except (OSError, ValueError):
            return ()

    def conflicts(self) -> AsyncIterator[tuple[Dagger, Refusal]]:
        """Yield daggers that write to another team's destination, each with the refusal."""
        return self.ownership.conflicts()

    async def check_rows(self, dagger: Dagger) -> None:
        """Check that a dagger writes to no other team's destination, before its rows are read there.

        Raises: ApiError.
        """
        if self._enforce:
            await self.ownership.check_rows(dagger)

    async def _topics(
        self,
        path: str,
        name: str,
        spec: spec_pb2.DaggerSpec,
        before: spec_pb2.DaggerSpec,
        who: Principal,
        context: Context,
    ) -> tuple[Sequence[Violation], Sequence[Violation]]:
        """Return violations for topics that the dagger also reads, and for topics of other teams.

        Administrators may write to topics of other teams.
        """
        had = set(written_topics(before, self._fleet).values())
        new = {field: place for field, place in written_topics(spec, self._fleet).items() if place not in had}
        if not new:
            return (), ()
        inputs = read(spec, self._fleet)
        exempt = is_administrator(who, self._fleet)
        others = {} if exempt else of_others(name, spec.team, self._fleet)
        streams = {} if exempt else of_streams(spec.team, self._fleet)
        kafkas = Kafkas(self._fleet, await self._ids(unclear(new, {*inputs, *others, *streams}), context))
        loops = tuple(kafkas.come_back(path, new, inputs))
        back = {violation.field for violation in loops}
        foreign = [*kafkas.foreign_topics(path, new, others), *kafkas.read(path, new, streams)]
        if not exempt:
            foreign += hidden_topics(path, new, spec.team, self._fleet)
        return loops, tuple(violation for violation in foreign if violation.field not in back)

    async def _ids(self, clusters: set[str], context: Context) -> Mapping[str, str]:
        """Return the ids of the clusters' Kafkas by the names of the clusters."""
        ids = await asyncio.gather(*(self._kafka_id(cluster, context) for cluster in clusters))
        return dict(zip(clusters, ids, strict=True))


def foreign_group(
    path: str, name: str, spec: spec_pb2.DaggerSpec, prefixes: Sequence[str]
) -> Iterator[Violation]:
    """Yield a violation for a consumer group of another service: commits in it would move that service's
    offsets.
    """
    group, own = spec.consumer_group, defaults.consumer_group(name)
    allowed = [prefix.replace(_TEAM, spec.team) for prefix in prefixes if spec.team or _TEAM not in prefix]
    if group == own or (not topics.is_platform(group) and any(map(group.startswith, allowed))):
        return
    begins = f", or begin with {' or '.join(allowed)}" if allowed else ""
    text = f"must be {own}{begins}: an administrator allows others (DAGGERS_GATEWAY_CONSUMER_GROUPS)"
    yield Violation(path, text, "FOREIGN_GROUP", suggestion=own)
