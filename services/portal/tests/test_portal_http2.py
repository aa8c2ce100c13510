"""With a certificate a portal speaks HTTP/2: what is followed leaves room for calls. What it counts."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived
from services.portal.tests.portals import WITHIN_S, Portal, Upstream

FOLLOWED = 20
API = "/api/daggers.v1.TestService"
UNARY, STREAM = {"content-type": "application/proto"}, {"content-type": "application/connect+proto"}
SAME_SITE = {"sec-fetch-site": "same-origin"}
NOTHING = struct.pack(">BI", 0, 0)
FIRST = struct.pack(">BI", 0, 5) + b"first"


async def first_of(said: AsyncIterator[bytes]) -> bytes:
    """What a stream says first; whoever asks keeps `said`, for a stream that nothing holds is closed."""
    async with asyncio.timeout(WITHIN_S):
        return await anext(said)


async def test_twenty_streams_of_one_connection_leave_room_for_a_call(
    portal: Portal, certificate: tuple[Path, Path], upstream: Upstream
) -> None:
    async with portal(certificate=certificate) as client, AsyncExitStack() as stack:
        followed = [
            await stack.enter_async_context(
                client.stream("POST", f"{API}/Wait", content=NOTHING, headers=STREAM)
            )
            for _ in range(FOLLOWED)
        ]
        said = [each.aiter_raw() for each in followed]
        firsts = [await first_of(each) for each in said]
        called = await client.post(f"{API}/Echo", content=b"seventh", headers=UNARY)
        connections = {id(each.extensions["network_stream"]) for each in followed}

    assert {each.http_version for each in followed} == {"HTTP/2"}
    assert firsts == [FIRST] * FOLLOWED
    assert called.content == b"seventh"
    assert len(connections) == 1


async def test_a_stream_that_is_left_on_http2_ends_its_call(
    portal: Portal, certificate: tuple[Path, Path], upstream: Upstream
) -> None:
    """As browsers leave: they reset the stream, and the connection goes on. httpx does not."""
    async with portal(certificate=certificate) as client:
        host, port = client.base_url.host, client.base_url.port
        trusting = ssl.create_default_context(cafile=certificate[0])
        trusting.check_hostname = False
        trusting.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection(host, port, ssl=trusting)
        browser = H2Connection()
        browser.initiate_connection()
        asked = {
            ":method": "POST",
            ":path": f"{API}/Wait",
            ":scheme": "https",
            ":authority": f"{host}:{port}",
        }
        browser.send_headers(1, [*asked.items(), *STREAM.items(), ("sec-fetch-site", "same-origin")])
        browser.send_data(1, NOTHING, end_stream=True)
        writer.write(browser.data_to_send())
        async with asyncio.timeout(WITHIN_S):
            while not any(
                isinstance(each, DataReceived) for each in browser.receive_data(await reader.read(65536))
            ):
                writer.write(browser.data_to_send())
            browser.reset_stream(1, ErrorCodes.CANCEL)
            writer.write(browser.data_to_send())
            await upstream.cancelled.wait()
        writer.close()


async def test_more_than_a_window_of_http2_comes_whole(
    portal: Portal, certificate: tuple[Path, Path]
) -> None:
    body = bytes(range(256)) * 8192
    async with portal(certificate=certificate) as client:
        answer = await client.post(f"{API}/Echo", content=body, headers=UNARY)

    assert answer.content == body


async def test_a_portal_that_ends_tells_its_streams(
    portal: Portal, certificate: tuple[Path, Path], upstream: Upstream
) -> None:
    async with asyncio.timeout(WITHIN_S), AsyncExitStack() as browsers, AsyncExitStack() as portals:
        address = (await portals.enter_async_context(portal(certificate=certificate))).base_url
        browser = await browsers.enter_async_context(
            httpx.AsyncClient(base_url=address, http2=True, verify=False, headers=SAME_SITE, timeout=WITHIN_S)
        )
        followed = await browsers.enter_async_context(
            browser.stream("POST", f"{API}/Wait", content=NOTHING, headers=STREAM)
        )
        said = followed.aiter_raw()
        first = await anext(said)
        ended = asyncio.create_task(portals.aclose())
        rest = b"".join([part async for part in said])
        await ended

    assert first == FIRST
    assert json.loads(rest[5:])["error"]["code"] == "unavailable"


async def test_prometheus_is_told_of_calls_streams_and_logins(portal: Portal, upstream: Upstream) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        bind = f"127.0.0.1:{free.getsockname()[1]}"
    async with portal(metrics_bind=bind) as client:
        await client.post(f"{API}/Echo", content=b"1", headers=UNARY)
        await client.post(f"{API}/Refuse", content=b"1", headers=UNARY)
        await client.get("/auth/key", params={"key": "another"})
        async with client.stream("POST", f"{API}/Wait", content=NOTHING, headers=STREAM) as followed:
            said = followed.aiter_raw()
            await first_of(said)
            told = (await client.get(f"http://{bind}/metrics")).text

    assert 'daggers_service_info{service="portal"' in told
    assert 'daggers_portal_calls_total{code="ok",kind="unary"} 1.0' in told
    assert 'daggers_portal_calls_total{code="permission_denied",kind="unary"} 1.0' in told
    assert "daggers_portal_open_streams 1.0" in told
    assert 'daggers_portal_logins_total{result="refused"} 1.0' in told
