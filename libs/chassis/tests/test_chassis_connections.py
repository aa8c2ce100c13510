"""Which connections of a server are closed, and that they are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest

from chassis.connections import Connections, Peer, guarding, network, peer_of

ADA, BOB = "192.0.2.1", "192.0.2.2"
_PATIENCE_S = 60.0


def peers(address: str, number: int) -> list[Peer]:
    return [(address, port) for port in range(1, number + 1)]


def test_one_that_never_calls_is_closed_after_its_time() -> None:
    connections = Connections(first_call_s=10)
    silent, calling = peers(ADA, 2)
    connections.begin(calling)

    assert connections.surplus([silent, calling], 100) == []
    assert connections.surplus([silent, calling], 110) == []
    assert connections.surplus([silent, calling], 110.1) == [silent]


def test_a_call_that_goes_on_holds_its_connection_and_one_that_ended_does_so_for_a_while() -> None:
    connections = Connections(first_call_s=10, idle_s=60)
    [peer] = peers(ADA, 1)
    connections.begin(peer)

    assert connections.surplus([peer], 0) == []
    assert connections.surplus([peer], 1_000) == []
    connections.end(peer, 1_000)
    assert connections.surplus([peer], 1_060) == []
    assert connections.surplus([peer], 1_061) == [peer]


def test_one_address_has_so_many_connections_and_another_has_its_own() -> None:
    connections = Connections(3)
    ada, bob = peers(ADA, 5), peers(BOB, 3)

    assert connections.surplus([*ada, *bob], 0) == ada[3:]


def test_all_addresses_together_have_a_bound() -> None:
    connections = Connections(3, most=4)
    ada, bob = peers(ADA, 3), peers(BOB, 3)

    assert connections.surplus([*ada, *bob], 0) == bob[1:]


def test_of_too_many_those_stay_who_are_known_then_those_who_called_then_the_older() -> None:
    connections = Connections(3)
    old, older, called, known = peers(ADA, 4)
    new = (ADA, 99)
    connections.surplus([older], 0)
    connections.surplus([older, old], 1)
    connections.begin(called)
    connections.begin(known)
    connections.trust(known)

    assert connections.surplus([new, old, older, called, known], 2) == [old, new]


def test_who_is_gone_is_forgotten() -> None:
    connections = Connections(first_call_s=10)
    [peer] = peers(ADA, 1)
    connections.begin(peer)
    connections.surplus([peer], 0)
    connections.surplus([], 1)
    connections.surplus([peer], 2)

    assert connections.surplus([peer], 13) == [peer]


@pytest.mark.parametrize(
    ("told", "peer"),
    [
        ("ipv4:192.0.2.1:50051", ("192.0.2.1", 50051)),
        ("ipv6:[2001:db8::1]:50051", ("2001:db8::1", 50051)),
        ("ipv6:%5B::1%5D:50051", ("::1", 50051)),
        ("ipv6:%5B::ffff:192.0.2.1%5D:50051", ("192.0.2.1", 50051)),
        ("ipv6:%5Bfe80::1%25eth0%5D:50051", ("fe80::1", 50051)),
        ("unix:/run/daggers", None),
        ("", None),
    ],
)
def test_a_peer_as_grpc_tells_it(told: str, peer: Peer | None) -> None:
    assert peer_of(told) == peer


def test_an_address_is_the_network_that_its_machine_has() -> None:
    assert network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::9")
    assert network("2001:db8:1:2::1") != network("2001:db8:1:3::1")
    assert network("::ffff:192.0.2.1") == network("192.0.2.1")
    assert network("fe80::1%eth0") == network("fe80::1")


@asynccontextmanager
async def served(connections: Connections) -> AsyncIterator[int]:
    """A server that waits for whatever comes, and takes its first byte for a call."""

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1):
            connections.begin(writer.get_extra_info("peername")[:2])
            await reader.read()
        writer.close()

    async with await asyncio.start_server(waits, "127.0.0.1", 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        async with guarding(connections, port):
            yield port


async def ends(connection: socket.socket) -> bool:
    """Whether the other side closes a connection, before patience ends."""
    connection.settimeout(_PATIENCE_S)
    return await asyncio.to_thread(connection.recv, 1) == b""


async def test_what_says_nothing_is_closed_and_what_called_is_not() -> None:
    async with served(Connections(first_call_s=0.5)) as port:
        with (
            socket.create_connection(("127.0.0.1", port)) as calling,
            socket.create_connection(("127.0.0.1", port)) as silent,
        ):
            calling.sendall(b"x")

            assert await ends(silent)
            calling.setblocking(False)
            with pytest.raises(BlockingIOError):
                calling.recv(1)


async def test_what_is_too_much_from_one_address_is_closed() -> None:
    async with served(Connections(5)) as port:
        with ExitStack() as stack:
            first = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(5)]
            for connection in first:
                connection.sendall(b"x")
            more = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(5)]

            assert all([await ends(connection) for connection in more])
            for connection in first:
                connection.setblocking(False)
                with pytest.raises(BlockingIOError):
                    connection.recv(1)
