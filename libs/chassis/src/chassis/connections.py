"""Who is connected to a service: for how long without asking anything, and how often from one address.

A server takes whoever connects, and keeps who then says nothing: gRPC has no bound for one address, and those
of asyncio wait for a request as long as it takes. So once a second the sockets of this process are looked at,
and those that are too much are shut down. Their owner sees a connection that ended.

Sockets are found in /proc: where there is none, nothing is looked at.
"""

from __future__ import annotations

import asyncio
import math
import os
import resource
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from chassis.pacing import Pace

Peer: TypeAlias = tuple[str, int]
"""Address and port of who is connected."""

MAX_CONNECTIONS: Final = 2_000
"""Of a server, whoever they are from."""
PER_ADDRESS: Final = 250
"""Of one address, unless a setting says otherwise."""
FIRST_CALL_S: Final = 10.0
"""After so many seconds without a call a new connection is closed."""
LOOK_S: Final = 1.0
_FILES: Final = Path("/proc/self/fd")
_OPEN_FILES: Final = 4_096
"""A service has other files than its connections."""
_IPV6_NETWORK: Final = 64
"""Bits that who has one address of IPv6 cannot choose."""


class Connections:
    """What is known of the connections of one port. Pure: times are arguments, in seconds that go on."""

    def __init__(
        self,
        per_address: int = PER_ADDRESS,
        *,
        most: int = MAX_CONNECTIONS,
        first_call_s: float = FIRST_CALL_S,
        idle_s: float = math.inf,
    ) -> None:
        """`most`: of all addresses; `idle_s`: how long there may be no call once there was one."""
        self._per_address, self._most = per_address, most
        self._first_call_s, self._idle_s = first_call_s, idle_s
        self._since: dict[Peer, float] = {}
        """When each was first found, or its last call ended."""
        self._trust: dict[Peer, int] = {}
        """Of those that called: 1, or 2 once it is known who calls."""
        self._going: defaultdict[Peer, int] = defaultdict(int)
        """Calls that go on."""
        self._pace = Pace()

    def begin(self, peer: Peer) -> None:
        """A call came."""
        self._trust.setdefault(peer, 1)
        self._going[peer] += 1

    def trust(self, peer: Peer) -> None:
        """It is known who calls."""
        self._trust[peer] = 2

    def delay_s(self, peer: Peer, now: float) -> float:
        """Count a call of a peer whom nobody knows; return how many seconds its answer waits."""
        return self._pace.delay_s(network(peer[0]), now)

    def end(self, peer: Peer, now: float) -> None:
        """A call is over."""
        self._going[peer] -= 1
        self._since[peer] = now

    def surplus(self, present: Collection[Peer], now: float) -> list[Peer]:
        """Those among the present that are to be closed; who is not present is forgotten."""
        gone = [peer for peer in {*self._since, *self._trust, *self._going} if peer not in present]
        for peer in gone:
            for known in (self._since, self._trust, self._going):
                known.pop(peer, None)
        for peer in present:
            self._since.setdefault(peer, now)
        closed = [peer for peer in present if now - self._since[peer] > self._patience_s(peer)]
        # Who is known comes first, then who called, then who was there earlier.
        stay = set(present).difference(closed)
        ranked = sorted(stay, key=lambda peer: (-self._trust.get(peer, 0), self._since[peer], peer))
        of_address: defaultdict[str, int] = defaultdict(int)
        held = 0
        for peer in ranked:
            address = network(peer[0])
            if held < self._most and of_address[address] < self._per_address:
                held += 1
                of_address[address] += 1
            else:
                closed.append(peer)
        return closed

    def _patience_s(self, peer: Peer) -> float:
        if peer not in self._trust:
            return self._first_call_s
        return math.inf if self._going[peer] else self._idle_s


def network(address: str) -> str:
    """What one machine has of an address, whatever else it may choose."""
    parsed = _parsed(address)
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(ip_network((parsed, _IPV6_NETWORK), strict=False))


def written(address: str, port: int) -> Peer:
    """A peer, whose address is written in one way: a socket of both kinds has IPv4 as a part of IPv6."""
    return str(_parsed(address)), port


def _parsed(address: str) -> IPv4Address | IPv6Address | str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


def peer_of(told: str) -> Peer | None:
    """The peer as gRPC tells it: ipv4:ADDRESS:PORT or ipv6:[ADDRESS]:PORT; None for another one."""
    kind, _, rest = unquote(told).partition(":")
    address, _, port = rest.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return written(address.strip("[]"), int(port))


@asynccontextmanager
async def guarding(
    connections: Connections, port: int, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[None]:
    """While the block runs, close what is too much of the connections to this port."""
    _allow_files()
    going = asyncio.create_task(_guard(connections, Sockets(port), clock))
    try:
        yield
    finally:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)


async def _guard(connections: Connections, sockets: Sockets, clock: Callable[[], float]) -> None:
    while _FILES.is_dir():
        await asyncio.sleep(LOOK_S)
        present = sockets.look()
        for peer in connections.surplus(present.keys(), clock()):
            sockets.close(present[peer], peer)


class Sockets:
    """The connections of this process to one of its ports."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._known: dict[str, Peer | None] = {}
        """By the kernel's name of a socket, so that each is asked once."""

    def look(self) -> dict[Peer, int]:
        """Who is connected now, and by which descriptor."""
        descriptors: dict[Peer, int] = {}
        names: dict[str, Peer | None] = {}
        # By names and not by paths, which take ten times as long for thousands of connections.
        for number in os.listdir(_FILES):  # noqa: PTH208
            with suppress(OSError):  # closed since
                name = os.readlink(f"{_FILES}/{number}")  # noqa: PTH115
                if name.startswith("socket:"):
                    names[name] = self._known[name] if name in self._known else self._peer(int(number))
                    if (peer := names[name]) is not None:
                        descriptors[peer] = int(number)
        self._known = names
        return descriptors

    def close(self, number: int, peer: Peer) -> None:
        """Shut a connection down; whose it is closes it then."""
        # By a descriptor of our own: the number may be another socket's by now, and be so again.
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
            if _ends(connection) == (self._port, peer):
                connection.shutdown(socket.SHUT_RDWR)

    def _peer(self, number: int) -> Peer | None:
        """Raises: OSError."""
        with socket.socket(fileno=os.dup(number)) as connection:
            port, peer = _ends(connection)
        return peer if port == self._port else None


def _ends(connection: socket.socket) -> tuple[int, Peer | None]:
    """The port of ours, and who is connected to it. Raises: OSError."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return 0, None
    port = connection.getsockname()[1]
    try:
        address, other, *_ = connection.getpeername()
    except OSError:  # one that listens
        return port, None
    return port, written(address, other)


def _allow_files() -> None:
    """Have room for as many connections as there may be, where the machine allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
