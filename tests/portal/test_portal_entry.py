"""Who opens the pages of one machine, in Chromium: an address good once, a cookie of no use elsewhere."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from playwright.sync_api import Browser, expect
from tests.gateways import served
from tests.portal.axe import violations
from tests.portal.conftest import portal

from chassis import tickets
from chassis.endpoint import Endpoint

KEY = "k" * 40
CALL = "/api/daggers.v1.AccessService/WhoAmI"
UNARY = {"content-type": "application/proto", "sec-fetch-site": "same-origin"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A portal with a key, as an embedded stack has it, in front of a gateway."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    folder = tmp_path_factory.mktemp("entry")
    key = folder / "key"
    key.write_text(KEY)
    with (
        served(Endpoint("127.0.0.1:0"), f"sqlite:///{folder}/gateway.db") as port,
        portal(f"127.0.0.1:{port}", folder, KEY_FILE=str(key)) as at,
    ):
        yield at
    structlog.reset_defaults()


def entry(address: str) -> str:
    """What `daggers local status` prints."""
    return f"{address}/auth/key?key={tickets.issue_ticket(KEY, secrets.token_bytes(16), time.time())}"


@contextmanager
def neighbour() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Another program of this machine, at another port: its address, and the headers that it was sent."""
    received: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(dict(self.headers))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>neighbour</title>")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            serving.join()


def test_the_address_lets_in_once_and_the_pages_work_after_it(chromium: Browser, address: str) -> None:
    opened = entry(address)
    first, second = chromium.new_context(), chromium.new_context()
    page = first.new_page()
    page.goto(opened)
    expect(page.get_by_role("heading", level=1, name="Daggers")).to_be_visible()
    expect(page.get_by_text("administrator").first).to_be_visible()
    shown = page.url
    page.reload()  # the second secret is kept, and stands in no address
    expect(page.get_by_text("administrator").first).to_be_visible()
    other_tab = first.new_page()
    other_tab.goto(f"{address}/streams")
    expect(other_tab.get_by_role("heading", level=1, name="Streams")).to_be_visible()
    late = second.new_page()
    late.goto(opened)
    expect(late.get_by_text("This address was used.")).to_be_visible()

    assert shown == f"{address}/"
    assert second.cookies() == []
    first.close()
    second.close()


def test_what_another_port_is_sent_of_the_session_is_of_no_use_there(chromium: Browser, address: str) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(entry(address))
    expect(page.get_by_text("administrator").first).to_be_visible()
    with neighbour() as (elsewhere, received):
        page.goto(elsewhere)
        kept: Any = page.evaluate("({...localStorage})")
    sent = next(headers["Cookie"] for headers in received if "Cookie" in headers)  # cookies know no ports
    stolen = httpx.post(f"{address}{CALL}", content=b"", headers={**UNARY, "cookie": sent}, timeout=30)
    page.goto(address)
    expect(page.get_by_text("administrator").first).to_be_visible()

    assert stolen.status_code == 401
    assert kept == {}  # storage does
    assert all("x-daggers-call" not in map(str.lower, headers) for headers in received)
    context.close()


def test_who_logs_out_is_out(chromium: Browser, address: str, tmp_path: Path) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(entry(address))
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("You are logged out of these pages.")).to_be_visible()
    page.goto(address)

    expect(page.get_by_text("administrator")).to_have_count(0)
    context.close()


def test_pages_of_who_is_not_let_in_pass_axe(chromium: Browser, address: str, packages: Path) -> None:
    context = chromium.new_context(bypass_csp=True)
    page = context.new_page()
    for path, text in (("/auth/key?key=none", "it is good once"), ("/streams", "You are not logged in")):
        page.goto(f"{address}{path}")
        expect(page.get_by_text(text)).to_be_visible()
        assert violations(page, packages) == []
    context.close()


def test_the_page_of_who_is_not_let_in_is_drawn_within_its_policy(chromium: Browser, address: str) -> None:
    context = chromium.new_context(color_scheme="dark")
    page = context.new_page()
    console: list[str] = []
    page.on("console", lambda message: console.append(message.text))
    page.goto(f"{address}/auth/key?key=none")
    background = page.locator("main").evaluate("each => getComputedStyle(each).backgroundColor")

    assert background == "rgb(20, 24, 29)"
    assert [text for text in console if "Content Security Policy" in text] == []
    context.close()
