"""What a specification may reach: addresses of its own, topics of other teams, groups of other services.

It is judged when somebody asks for it, and by who asks. What a dagger has already it keeps: who changes
something else of it is not asked about that again. A gateway that observes says what it would refuse.
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
    hidden,
    of_others,
    of_streams,
    read,
    unclear,
    written,
)
from chassis.egress.addresses import PORTS, Address, EgressRules, refusal
from chassis.egress.pools import resolve
from chassis.egress.proxies import Proxies
from chassis.interceptors import Context
from daggerspec import defaults, destinations, folders, sinks, topics
from daggerspec.kind import Asked
from daggerspec.violation import Violation
from fleet import Dagger, Fleet, Refusal
from fleet.fold.resolve import Registered

_PATIENCE_S: Final = 2.0
_REGISTERED: Final = " by `daggers sink apply`, and the sink says `registered: NAME` then"
_AT_ONCE: Final = 4
_UNKNOWN_NAME: Final = (
    "its name leads nowhere that the gateway can find, so nobody can judge where drivers would connect, and"
    " it is not in DAGGERS_ALLOWED_HOSTS"
)
_TEAM: Final = "{team}"
KafkaId: TypeAlias = Callable[[str, Context], Awaitable[str]]
"""What the Kafka of a cluster, by its name, says that it is; empty when it says nothing."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an administrator allows tenants."""

    allowed: EgressRules = field(default_factory=EgressRules)
    """Addresses."""
    groups: Sequence[str] = ()
    """Prefixes of consumer groups; `{team}` stands for the dagger's."""
    folders: Sequence[str] = ()
    """Where sinks may write files (`daggerspec.folders`)."""
    proxies: Proxies = field(default_factory=Proxies)
    """By which proxies calls leave: what a name leads to that only they know, they judge."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found about a specification."""

    wrong: Sequence[Violation] = ()
    """What is refused."""
    observed: Sequence[Violation] = ()
    """What would be refused, and what is not known."""
    destinations: Sequence[str] = ()
    """What its sinks write to and becomes its team's; none where only is observed, or nobody's team asks."""


class Reach:
    """Judges specifications."""

    def __init__(
        self,
        fleet: Fleet,
        kafka_id: KafkaId,
        bounds: Bounds,
        *,
        enforce: bool,
        resolver: Callable[[str, int], list[Address]] = resolve,
    ) -> None:
        """`resolver` says the addresses of a host; it may block."""
        self._fleet, self._kafka_id, self._bounds, self._enforce = fleet, kafka_id, bounds, enforce
        self._resolver = resolver
        # Of its own: names that are answered slowly must hold up nobody who waits for the database.
        self._threads = ThreadPoolExecutor(_AT_ONCE, "reach")
        self.ownership = Ownership(fleet, self._addresses_of)

    async def found(
        self,
        path: str,
        name: str,
        spec: spec_pb2.DaggerSpec,
        held: Sequence[spec_pb2.ResolvedSink],
        who: Principal,
        context: Context,
    ) -> Found:
        """What a principal may not reach by the spec of the dagger `name`, its defaults filled in; `held` are
        its sinks, addresses filled in.
        """
        living = self._fleet.living(name)
        before = defaults.filled(name, living.spec) if living else spec_pb2.DaggerSpec()
        ruled = {
            f"{path}.sinks[{number}]": sink.sink
            for number, sink in enumerate(held)
            if sink.HasField("egress")
        }
        had = self._held(name, before) if ruled else ()
        refused = [address async for address in self._addresses(ruled, had)]
        if spec.consumer_group != before.consumer_group and not is_administrator(who, self._fleet):
            refused += foreign_group(f"{path}.consumer_group", name, spec, self._bounds.groups)
        outside = list(self._folders(ruled, had, spec.team))
        loops, others = await self._topics(path, name, spec, before, who, context)
        unknown = [violation for violation in (*loops, *others) if violation.reason == UNKNOWN]
        wrong = [*outside, *(loop for loop in loops if loop.reason != UNKNOWN)]
        refused += [violation for violation in others if violation.reason != UNKNOWN]
        judged = {violation.field for violation in others}
        foreign = self.ownership.violations(path, name, spec, held)
        refused += [violation async for violation in foreign if violation.field not in judged]
        if self._enforce:
            return Found((*wrong, *refused), unknown, written_to(held) if spec.team else ())
        return Found(wrong, (*refused, *unknown))

    async def _addresses(
        self, ruled: Mapping[str, spec_pb2.Sink], had: Sequence[spec_pb2.Sink]
    ) -> AsyncIterator[Violation]:
        """Addresses that no administrator registered, and that lead where nobody may go."""
        known = {server for sink in had for server in destinations.servers(sink).items()}
        for path, sink in ruled.items():
            for violation in await self._refused(path, sink, known):
                yield violation

    def _folders(
        self, ruled: Mapping[str, spec_pb2.Sink], had: Sequence[spec_pb2.Sink], team: str
    ) -> Iterator[Violation]:
        """Files that would be written where no administrator allows it: never only observed."""
        known = {destinations.written_below(sink) for sink in had}
        for path, sink in ruled.items():
            if destinations.written_below(sink) not in known:
                yield from self._outside(path, sink, team)

    def _outside(self, path: str, sink: spec_pb2.Sink, team: str) -> Iterator[Violation]:
        """Why a sink of a team may not write below its folder."""
        field, folder = destinations.written_below(sink) or ("", "")
        allowed = folders.of(team, self._bounds.folders)
        if not folders.is_plain(folder) or folders.holding(allowed, folder):
            return  # what is no folder the rule book tells
        told = f"only below {', '.join(allowed)}" if allowed else "files are written nowhere"
        text = f"may not be written to, {told}: an administrator can allow it (DAGGERS_ALLOWED_FOLDERS)"
        yield Violation(f"{path}.{field}", f"{text}, or register the sink", "FOLDER_REFUSED")

    async def registered(self, path: str, sink: spec_pb2.RegisteredSink) -> Found:
        """What may not be reached of a sink that is to be registered; administrators register any."""
        if sink.exempt:
            return Found()
        addresses: list[tuple[str, spec_pb2.Sink, Sequence[str]]] = [(path, sink.sink, sink.teams)]
        for number, parts in enumerate(sink.by_team):
            where = f"{path.removesuffix('.sink')}.by_team[{number}].sink"
            addresses.append((where, sinks.of_team(sink, parts.team), [parts.team]))
        outside, refused = list[Violation](), list[Violation]()
        for where, address, teams in addresses:
            outside += [wrong for team in teams for wrong in self._outside(where, address, team)][:1]
            refused += await self._refused(where, address)
        return Found([*outside, *refused]) if self._enforce else Found(outside, refused)

    def _held(self, name: str, spec: spec_pb2.DaggerSpec) -> Sequence[spec_pb2.Sink]:
        """Sinks with their addresses."""
        asked = Asked(name, spec, Registered(self._fleet))
        return [resolved.sink for resolved, _ in sinks.all_resolved("", asked)]

    async def _refused(
        self, path: str, sink: spec_pb2.Sink, known: Set[tuple[str, str]] = frozenset()
    ) -> Sequence[Violation]:
        """Why a sink may not be where its address says, nor ask for tokens where it does; but of `known`."""
        refused = []
        for place, url in destinations.servers(sink).items():
            why = None if (place, url) in known else await self._refusal(url)
            if why is not None:
                text = f"may not be reached: {why}; an administrator can register it{_REGISTERED}"
                refused.append(Violation(f"{path}.{place}", text, "ADDRESS_REFUSED"))
        return refused

    async def _refusal(self, url: str) -> str | None:
        """Why nothing may be sent to a URL, or to host:port by a protocol that encrypts; None when it may."""
        try:
            parts = urlsplit(url if "://" in url else f"https://{url}")
            host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
        except ValueError:
            return None  # what is no URL the rule book tells
        allowed = self._bounds.allowed
        try:
            addresses = await self._resolved(host, port)
        except (OSError, ValueError):
            if not self._enforce:
                return None  # drivers may know the host; they judge each connection
            by_proxy = self._bounds.proxies.of(parts.scheme, host, port) is not None
            if not by_proxy and host and not allowed.has(host, port):
                return _UNKNOWN_NAME
            addresses = []
        return refusal(parts.scheme, host, port, addresses, allowed)

    async def _resolved(self, host: str, port: int) -> list[Address]:
        """The addresses of a host. Raises: OSError, ValueError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_PATIENCE_S):
            return await loop.run_in_executor(self._threads, self._resolver, host, port)

    async def _addresses_of(self, server: str) -> Sequence[Address]:
        """The addresses of host:port; none where they are not known here."""
        host, _, port = server.rpartition(":")
        try:
            return await self._resolved(host.strip("[]"), int(port))
        except (OSError, ValueError):
            return ()

    def conflicts(self) -> AsyncIterator[tuple[Dagger, Refusal]]:
        """Daggers that write to what another team owns, each with why it may not."""
        return self.ownership.conflicts()

    async def check_rows(self, dagger: Dagger) -> None:
        """Raises: ApiError where a dagger writes to what is another team's, as is what is read there."""
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
        """Topics that come back, and those of other teams; administrators may write to these."""
        had = set(written(before, self._fleet).values())
        new = {field: place for field, place in written(spec, self._fleet).items() if place not in had}
        if not new:
            return (), ()
        inputs = read(spec, self._fleet)
        exempt = is_administrator(who, self._fleet)
        others = {} if exempt else of_others(name, spec.team, self._fleet)
        streams = {} if exempt else of_streams(spec.team, self._fleet)
        kafkas = Kafkas(self._fleet, await self._ids(unclear(new, {*inputs, *others, *streams}), context))
        loops = tuple(kafkas.come_back(path, new, inputs))
        back = {violation.field for violation in loops}
        foreign = [*kafkas.taken(path, new, others), *kafkas.read(path, new, streams)]
        if not exempt:
            foreign += hidden(path, new, spec.team, self._fleet)
        return loops, tuple(violation for violation in foreign if violation.field not in back)

    async def _ids(self, clusters: set[str], context: Context) -> Mapping[str, str]:
        """What the Kafkas of clusters say that they are."""
        said = await asyncio.gather(*(self._kafka_id(cluster, context) for cluster in clusters))
        return dict(zip(clusters, said, strict=True))


def foreign_group(
    path: str, name: str, spec: spec_pb2.DaggerSpec, prefixes: Sequence[str]
) -> Iterator[Violation]:
    """A group that may be somebody else's: committing in it moves where they read on."""
    asked, own = spec.consumer_group, defaults.consumer_group(name)
    allowed = [prefix.replace(_TEAM, spec.team) for prefix in prefixes if spec.team or _TEAM not in prefix]
    if asked == own or (not topics.is_platform(asked) and any(map(asked.startswith, allowed))):
        return
    begins = f", or begin with {' or '.join(allowed)}" if allowed else ""
    text = f"must be {own}{begins}: an administrator allows others (DAGGERS_GATEWAY_CONSUMER_GROUPS)"
    yield Violation(path, text, "FOREIGN_GROUP", suggestion=own)
