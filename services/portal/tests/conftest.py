"""A portal on a port of its own, in front of a real server of gRPC that answers bytes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from services.portal.tests.portals import INDEX, WITHIN_S, Answers, Portal, Upstream

from chassis.connections import PER_ADDRESS
from portal.entry import LoginMethod
from portal.pages import Pages
from portal.server import PortalPlan, serving


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A server of gRPC."""
    seen = Upstream()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Answers(seen),))
    seen.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    seen.server = server
    try:
        yield seen
    finally:
        await server.stop(None)


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    """What a build has made, cut short."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "assets" / "app.js").write_text("export {};")
    return Pages(folder)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that signs itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", "key.pem", "-out", "cert.pem", "-days", "1", "-subj", "/CN=localhost"],
        check=True, capture_output=True, cwd=folder, timeout=60,
    )  # fmt: skip
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def portal(upstream: Upstream, tmp_path: Path, pages: Pages) -> Portal:
    """Starts a portal; gives a client of it that is of the same site."""

    @asynccontextmanager
    async def started(
        ways: LoginMethod | None = None, origin: str = "http://127.0.0.1:1", **further: Any
    ) -> AsyncIterator[httpx.AsyncClient]:
        certificate = further.pop("certificate", None)
        plan = PortalPlan(
            bind="127.0.0.1:0",
            gateway=upstream.address,
            authority=None,
            origin=origin,
            login_method=ways or LoginMethod(),
            sessions=tmp_path / "sessions.sqlite",
            idle_s=further.pop("idle_s", 3600),
            life_s=further.pop("life_s", 7200),
            drain_s=2,
            certificate=certificate,
            metrics_bind=further.pop("metrics_bind", ""),
            look_s=further.pop("look_s", 30),
            connections_per_address=further.pop("connections_per_address", PER_ADDRESS),
            pages=further.pop("pages", pages),
        )
        async with serving(plan, **further) as port:
            headers = {"sec-fetch-site": "same-origin"}
            async with httpx.AsyncClient(
                base_url=f"http{'s' if certificate else ''}://127.0.0.1:{port}",
                headers=headers, timeout=WITHIN_S, http2=bool(certificate), verify=False,
            ) as client:  # fmt: skip
                yield client

    return started
