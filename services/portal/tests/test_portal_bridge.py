"""The bridge between browsers and a real server of gRPC."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest
from google.rpc import error_details_pb2
from services.portal.tests.portals import FLOOD_BYTES, WITHIN_S, Portal, Upstream, come_in

from portal.bridge import AWAY, MAX_BODY
from portal.entry import LoginMethod

API = "/api/daggers.v1.TestService"
UNARY = {"content-type": "application/proto"}
STREAM = {"content-type": "application/connect+proto"}


def envelope(message: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(message)) + message


async def envelopes(answer: httpx.Response) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the envelopes of a stream, as they come."""
    unread = b""
    async for part in answer.aiter_raw():
        unread += part
        while len(unread) >= 5 and len(unread) >= 5 + (length := struct.unpack(">I", unread[1:5])[0]):
            yield unread[0], unread[5 : 5 + length]
            unread = unread[5 + length :]
    assert unread == b""


async def test_a_message_comes_back_byte_for_byte(portal: Portal) -> None:
    message = bytes(range(256)) * 64
    async with portal() as client:
        answer = await client.post(f"{API}/Echo", content=message, headers=UNARY)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/proto")
    assert answer.content == message


async def test_a_refusal_keeps_its_code_its_sentence_and_its_details(portal: Portal) -> None:
    async with portal() as client:
        answer = await client.post(f"{API}/Refuse", content=b"", headers=UNARY)

    error = answer.json()
    detail = error["details"][0]
    info = error_details_pb2.ErrorInfo.FromString(base64.b64decode(detail["value"] + "=="))
    assert (answer.status_code, error["code"], error["message"]) == (403, "permission_denied", "no")
    assert (detail["type"], info.reason, info.metadata["team"]) == (
        "google.rpc.ErrorInfo",
        "FORBIDDEN",
        "pricing",
    )


async def test_an_answer_that_may_be_behind_the_truth_says_why(portal: Portal) -> None:
    async with portal() as client:
        answer = await client.post(f"{API}/Behind", content=b"x", headers=UNARY)
        other = await client.post(f"{API}/Echo", content=b"x", headers=UNARY)

    assert (answer.content, answer.headers["trailer-x-daggers-degraded"]) == (b"x", "Kafka does not answer")
    assert "trailer-x-daggers-degraded" not in other.headers


async def test_a_gateway_that_is_away_is_one_sentence_whatever_was_asked(
    portal: Portal, upstream: Upstream
) -> None:
    """Hide what gRPC says of its addresses; and let pages know that it is about all of them."""
    sentence = {"code": "unavailable", "message": "The gateway does not answer."}
    async with portal() as client:
        before = await client.post(f"{API}/Echo", content=b"x", headers=UNARY)
        async with client.stream("POST", f"{API}/Wait", content=envelope(b""), headers=STREAM) as broken:
            parts = envelopes(broken)
            assert await anext(parts) == (0, b"first")
            await upstream.server.stop(None)
            ((_, end),) = [each async for each in parts]
        once = await client.post(f"{API}/Echo", content=b"x", headers=UNARY)
        async with client.stream("POST", f"{API}/Count", content=envelope(b"1"), headers=STREAM) as answer:
            ((flags, last),) = [each async for each in envelopes(answer)]

    assert before.status_code == 200
    assert (once.status_code, once.json(), once.headers[AWAY]) == (503, sentence, "gateway")
    away = {"error": sentence, "metadata": {AWAY: ["gateway"]}}
    assert (flags, json.loads(last), json.loads(end)) == (2, away, away)


async def test_a_stream_is_one_envelope_a_message_and_one_for_its_end(portal: Portal) -> None:
    async with (
        portal() as client,
        client.stream("POST", f"{API}/Count", content=envelope(b"1000"), headers=STREAM) as answer,
    ):
        got = [each async for each in envelopes(answer)]

    assert got == [*((0, str(number).encode()) for number in range(1000)), (2, b"{}")]


async def test_a_stream_that_fails_says_so_behind_what_came(portal: Portal) -> None:
    async with (
        portal() as client,
        client.stream("POST", f"{API}/Break", content=envelope(b""), headers=STREAM) as answer,
    ):
        first, last = [each async for each in envelopes(answer)]

    assert (first, last[0]) == ((0, b"one"), 2)
    assert json.loads(last[1]) == {"error": {"code": "resource_exhausted", "message": "too much"}}


async def test_a_browser_that_leaves_cancels_the_call(portal: Portal, upstream: Upstream) -> None:
    async with portal() as client:
        async with client.stream("POST", f"{API}/Wait", content=envelope(b""), headers=STREAM) as answer:
            assert await anext(envelopes(answer)) == (0, b"first")
        await asyncio.wait_for(upstream.cancelled.wait(), WITHIN_S)


async def test_who_reads_slowly_holds_up_the_gateway_and_not_the_portal(
    portal: Portal, upstream: Upstream
) -> None:
    """Let the gateway wait: the portal keeps nothing that nobody reads yet, and answers everybody else."""
    many = 2_000
    async with (
        portal() as client,
        client.stream("POST", f"{API}/Flood", content=envelope(b"%d" % many), headers=STREAM) as answer,
    ):
        parts = answer.aiter_raw()
        size = len(await anext(parts))
        sent = await standing(upstream)
        other = await client.post(f"{API}/Echo", content=b"another", headers=UNARY)
        async for part in parts:
            size += len(part)

    assert sent < many / 2
    assert other.content == b"another"
    assert (upstream.sent, size) == (many, many * (5 + FLOOD_BYTES) + len(envelope(b"{}", 2)))


async def standing(upstream: Upstream) -> int:
    """Wait until no more messages are sent; return how many were."""
    before = -1
    async with asyncio.timeout(WITHIN_S):
        while before != upstream.sent:
            before = upstream.sent
            await asyncio.sleep(1)  # a second in which none was sent
    return before


async def test_the_end_of_the_service_ends_streams_and_says_why(portal: Portal) -> None:
    async with httpx.AsyncClient(timeout=WITHIN_S) as browser, AsyncExitStack() as opened:
        async with portal() as client:
            answer = await opened.enter_async_context(
                browser.stream(
                    "POST",
                    f"{str(client.base_url).rstrip('/')}{API}/Wait",
                    content=envelope(b""),
                    headers={**STREAM, "sec-fetch-site": "same-origin"},
                )
            )
            steps = envelopes(answer)
            assert await anext(steps) == (0, b"first")
        ((flags, last),) = [step async for step in steps]

    assert (flags, json.loads(last)["error"]["code"]) == (2, "unavailable")


@pytest.mark.parametrize(
    ("headers", "content", "status", "code"),
    [
        ({"content-type": "application/json"}, b"{}", 415, "invalid_argument"),
        ({"content-type": "application/x-www-form-urlencoded"}, b"a=b", 415, "invalid_argument"),
        (UNARY, b"x" * (MAX_BODY + 1), 400, "invalid_argument"),
        ({**UNARY, "connect-timeout-ms": "soon"}, b"", 400, "invalid_argument"),
        (STREAM, b"\0\0", 400, "invalid_argument"),
        (STREAM, envelope(b"x", flags=1), 400, "invalid_argument"),
        (STREAM, envelope(b"1") + b"more", 400, "invalid_argument"),
    ],
    ids=["json", "a form", "too large", "no time", "no envelope", "compressed", "two of them"],
)
async def test_what_is_no_call_of_connect_is_refused(
    portal: Portal, headers: dict[str, str], content: bytes, status: int, code: str
) -> None:
    async with portal() as client:
        answer = await client.post(f"{API}/Echo", content=content, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_only_the_services_of_daggers_are_reached(portal: Portal) -> None:
    async with portal() as client:
        other = await client.post("/api/grpc.health.v1.Health/Check", content=b"", headers=UNARY)
        unknown = await client.post(f"{API}/Nothing", content=b"", headers=UNARY)

    assert other.status_code in (404, 405)
    assert (unknown.status_code, unknown.json()["code"]) == (501, "unimplemented")


async def test_a_gateway_that_is_away_is_told_as_such(portal: Portal, upstream: Upstream) -> None:
    upstream.address = "127.0.0.1:1"
    async with portal() as client:
        answer = await client.post(f"{API}/Echo", content=b"", headers=UNARY)

    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


async def test_the_gateway_is_shown_the_token_and_nothing_of_the_browsers(
    portal: Portal, upstream: Upstream
) -> None:
    ways = LoginMethod(None, key="k" * 32, token=lambda: "of-the-file")
    async with portal(ways) as client:
        await come_in(client, "k" * 32)
        await client.post(f"{API}/Echo", content=b"", headers={**UNARY, "authorization": "Bearer mine"})

    assert upstream.metadata[0]["authorization"] == "Bearer of-the-file"
    assert "cookie" not in upstream.metadata[0]


async def test_a_session_that_ends_ends_its_streams(portal: Portal, upstream: Upstream) -> None:
    ways = LoginMethod(None, key="k" * 32)
    async with portal(ways, look_s=0.05) as client:
        await come_in(client, "k" * 32)
        async with client.stream("POST", f"{API}/Wait", content=envelope(b""), headers=STREAM) as answer:
            steps = envelopes(answer)
            assert await anext(steps) == (0, b"first")
            assert (await client.post("/auth/logout")).status_code == 204
            flags, last = await anext(steps)

    assert (flags, json.loads(last)["error"]["code"]) == (2, "unauthenticated")
