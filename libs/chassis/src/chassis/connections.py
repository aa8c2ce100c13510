"""Limits on the connections to a service: idle time before and between calls, number in all and by address.

Servers of gRPC and asyncio accept every connection, and wait for requests without a limit. So once a second
the sockets of this process are examined, and those beyond a limit are shut down; the client sees a connection
that ended.

Sockets are found in /proc; on systems without it no connection is closed.
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
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from chassis.pacing import Pace

Peer: TypeAlias = tuple[str, int]
"""Address and port of a client."""

MAX_CONNECTIONS: Final = 2_000
"""Of a server, from all addresses."""
PER_ADDRESS: Final = 250
"""Of one address, unless a setting says otherwise."""
FIRST_CALL_S: Final = 10.0
"""After so many seconds without a call a new connection is closed."""
LOOK_S: Final = 1.0
_FILES: Final = Path("/proc/self/fd")
_OPEN_FILES: Final = 4_096
"""A service has other files than its connections."""
_IPV6_NETWORK: Final = 64
"""Bits of the prefix that a host is given in IPv6; it chooses the rest of its addresses by itself."""


class Connections:
    """Connections of one port, by trust and last call. Pure: times are arguments, in monotonic seconds."""

    def __init__(
        self,
        per_address: int = PER_ADDRESS,
        *,
        most: int = MAX_CONNECTIONS,
        first_call_s: float = FIRST_CALL_S,
        idle_s: float = math.inf,
    ) -> None:
        """Set limits: `most` connections of all addresses; `idle_s` without a call after the first one."""
        self._per_address, self._most = per_address, most
        self._first_call_s, self._idle_s = first_call_s, idle_s
        self._since: dict[Peer, float] = {}
        """When each was first found, or its last call ended."""
        self._trust: dict[Peer, int] = {}
        """Of peers that called: 1, or 2 once a call was authenticated."""
        self._going: defaultdict[Peer, int] = defaultdict(int)
        """Number of running calls."""
        self._pace = Pace()

    def begin(self, peer: Peer) -> None:
        """Count a call that begins."""
        self._trust.setdefault(peer, 1)
        self._going[peer] += 1

    def trust(self, peer: Peer) -> None:
        """Mark a peer as authenticated."""
        self._trust[peer] = 2

    def delay_s(self, peer: Peer, now: float) -> float:
        """Count a call without a valid token; return for how many seconds its answer waits."""
        return self._pace.delay_s(network(peer[0]), now)

    def end(self, peer: Peer, now: float) -> None:
        """Count a call that ended."""
        self._going[peer] -= 1
        self._since[peer] = now

    def surplus(self, present: Collection[Peer], now: float) -> list[Peer]:
        """Return the peers among `present` to close, and forget all that are not present."""
        gone = [peer for peer in {*self._since, *self._trust, *self._going} if peer not in present]
        for peer in gone:
            for by_peer in (self._since, self._trust, self._going):
                by_peer.pop(peer, None)
        for peer in present:
            self._since.setdefault(peer, now)
        closed = [peer for peer in present if now - self._since[peer] > self._patience_s(peer)]
        # Authenticated peers come first, then those that called, then those that connected earlier.
        stay = set(present).difference(closed)
        ranked = sorted(stay, key=lambda peer: (-self._trust.get(peer, 0), self._since[peer], peer))
        of_address: defaultdict[str, int] = defaultdict(int)
        total = 0
        for peer in ranked:
            address = network(peer[0])
            if total < self._most and of_address[address] < self._per_address:
                total += 1
                of_address[address] += 1
            else:
                closed.append(peer)
        return closed

    def _patience_s(self, peer: Peer) -> float:
        if peer not in self._trust:
            return self._first_call_s
        return math.inf if self._going[peer] else self._idle_s


def network(address: str) -> str:
    """Return the part of an address that its host cannot choose: of IPv4 all, of IPv6 the /64 prefix."""
    parsed = _parse_address(address)
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(ip_network((parsed, _IPV6_NETWORK), strict=False))


def canonical_peer(address: str, port: int) -> Peer:
    """Return a peer with a canonical address: a dual-stack socket has IPv4 addresses mapped into IPv6."""
    return str(_parse_address(address)), port


def _parse_address(address: str) -> IPv4Address | IPv6Address | str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


@lru_cache(maxsize=4096)  # a connection has many calls
def peer_of(text: str) -> Peer | None:
    """Parse a peer in gRPC's format, ipv4:ADDRESS:PORT or ipv6:[ADDRESS]:PORT; return None for any other."""
    kind, _, rest = unquote(text).partition(":")
    address, _, port = rest.rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return canonical_peer(address.strip("[]"), int(port))


@asynccontextmanager
async def guarding(
    connections: Connections, port: int, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[None]:
    """Close connections to this port beyond the limits while the block runs."""
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
        self._peers: dict[str, Peer | None] = {}
        """By the kernel's name of a socket, so that each is examined once."""

    def look(self) -> dict[Peer, int]:
        """Return the peers that are connected now, with the descriptor of each."""
        descriptors: dict[Peer, int] = {}
        names: dict[str, Peer | None] = {}
        # By names and not by paths, which take ten times as long for thousands of connections.
        for number in os.listdir(_FILES):  # noqa: PTH208
            with suppress(OSError):  # closed since
                name = os.readlink(f"{_FILES}/{number}")  # noqa: PTH115
                if name.startswith("socket:"):
                    names[name] = self._peers[name] if name in self._peers else self._peer(int(number))
                    if (peer := names[name]) is not None:
                        descriptors[peer] = int(number)
        self._peers = names
        return descriptors

    def close(self, number: int, peer: Peer) -> None:
        """Shut a connection down; the server then closes it."""
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
    """Return the local port of a connection, and its peer. Raises: OSError."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return 0, None
    port = connection.getsockname()[1]
    try:
        address, other, *_ = connection.getpeername()
    except OSError:  # one that listens
        return port, None
    return port, canonical_peer(address, other)


def _allow_files() -> None:
    """Have room for as many connections as there may be, where the machine allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
