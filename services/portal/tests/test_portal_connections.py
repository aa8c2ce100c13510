"""Who connects to a portal and says nothing, or not all of it, is not waited for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from services.portal.tests.portals import WITHIN_S, Portal

from chassis.connections import LOOK_S
from portal import bridge

HALF_A_HEAD = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n"
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01"
"""How a client of TLS begins."""


async def ends(reader: asyncio.StreamReader) -> None:
    """Wait until the other side closes a connection. Raises: TimeoutError."""
    async with asyncio.timeout(2 * WITHIN_S):
        with suppress(ConnectionResetError):
            await reader.read()


def call(method: str, port: int, kind: str, length: int) -> bytes:
    """The head of a call of a browser."""
    return (
        f"POST /api/daggers.v1.TestService/{method} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
        f"sec-fetch-site: same-origin\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    ).encode()


@pytest.mark.parametrize("begin", [b"", HALF_A_HEAD, HALF_A_HELLO])
@pytest.mark.parametrize("by_tls", [False, True])
async def test_half_open_connections_are_closed(
    portal: Portal, certificate: tuple[Path, Path], by_tls: bool, begin: bytes
) -> None:
    async with portal(certificate=certificate if by_tls else None) as client:
        port = client.base_url.port or 0
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begin)

        await ends(reader)
        writer.close()


async def test_one_address_has_so_many_connections(portal: Portal) -> None:
    async with portal(connections_per_address=20) as client:
        port = client.base_url.port or 0
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        for _, writer in opened:
            writer.write(call("Wait", port, bridge.STREAM, 5) + bytes(5))
        waiting = {asyncio.create_task(ends(reader)) for reader, _ in opened}
        while len(waiting) > 20:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*done)
        await asyncio.sleep(2 * LOOK_S)

        assert sum(not task.done() for task in waiting) == 20
        for _, writer in opened:
            writer.close()
        await asyncio.gather(*waiting)


async def test_a_body_that_does_not_come_is_not_waited_for(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "RECEIVE_S", 0.2)
    async with portal() as client:
        port = client.base_url.port or 0
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(call("Echo", port, bridge.UNARY, 9) + b"half")
        answered = await asyncio.wait_for(reader.readline(), WITHIN_S)
        writer.close()

    assert answered == b"HTTP/1.1 408 Request Timeout\r\n"
