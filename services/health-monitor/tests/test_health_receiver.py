"""The alert receiver answers as the real ones do; and what answers as a Spark driver."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from aiohttp import web

from health_monitor.observe import liveness
from health_monitor.receiver import AlertReceiver


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/slack", b"{", 400, "invalid_payload"),
        ("/slack", b'{"text": ""}', 400, "no_text"),
        ("/slack", b'{"text": "hello"}', 200, "ok"),
        ("/v2/enqueue", b"[]", 400, "it is not a JSON object"),
        ("/v2/enqueue", b'{"routing_key": "short"}', 400, "should be 32 characters"),
        ("/elsewhere", b"", 404, "Not Found"),
    ],
)
async def test_the_receiver_answers_as_the_real_ones_do(
    path: str, body: bytes, status: int, said: str
) -> None:
    async with AlertReceiver(show=print) as receiver, httpx.AsyncClient(trust_env=False) as client:
        response = await client.post(f"http://127.0.0.1:{receiver.port}{path}", content=body)

    assert response.status_code == status
    assert said in response.text


async def test_the_receiver_folds_repeats_as_pagerduty_does() -> None:
    shown: list[str] = []
    async with AlertReceiver(show=shown.append) as receiver, httpx.AsyncClient(trust_env=False) as client:
        for action in ("trigger", "trigger", "resolve", "resolve"):
            payload = {"summary": "it was given up", "source": "bookings", "severity": "critical"}
            event = {"routing_key": "k" * 32, "event_action": action, "dedup_key": "a", "payload": payload}
            await client.post(receiver.pagerduty_url, json=event)

    assert [line.split()[1] for line in shown] == ["triggered", "repeated", "resolved", "resolved"]
    assert shown[-1].endswith("(no such incident)")


# ---- Spark's REST ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([{"id": "local-1", "name": "dagger bookings 17"}], True),
        ([{"id": "app-1", "name": "daggers.bookings.17"}], True),
        ([{"id": "app-1", "name": "dagger bookings 16"}], False),
        ([{"id": "app-1", "name": "dagger other 17"}], False),
        ([], False),
        ({"name": "dagger bookings 17"}, False),
        ("not json", False),
        (None, False),
    ],
)
async def test_a_driver_lives_only_by_its_own_name_and_generation(answer: Any, *, expected: bool) -> None:
    async def applications(_: web.Request) -> web.Response:
        if answer is None:
            return web.Response(status=500)
        return web.json_response(answer) if answer != "not json" else web.Response(text="<html>")

    application = web.Application()
    application.router.add_get("/api/v1/applications", applications)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
            lives = await liveness.answers(client, url, "bookings", 17)
    finally:
        await runner.cleanup()

    assert lives is expected


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "no url", "ftp://127.0.0.1", "http://[", ""])
async def test_nobody_there_is_no_life(url: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        assert await liveness.answers(client, url, "bookings", 17) is False
