"""A real OpenID Connect provider: oidc-provider, installed once by its lock, whose hashes npm checks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests import npm

HERE = Path(__file__).parent
START_S = 60.0


@pytest.fixture(scope="session")
def installed() -> Path:
    """The folder of the provider, with all it needs."""
    home = npm.installed(HERE, "oidc-provider")
    shutil.copy(HERE / "provider.mjs", home / "provider.mjs")
    return home


@pytest.fixture(scope="session")
def issuer(installed: Path) -> Iterator[str]:
    """The address of a provider that answers."""
    with running(installed) as address:
        yield address


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running(installed: Path, *clients: Path, port: int = 0, keys: Path | None = None) -> Iterator[str]:
    """A provider that runs meanwhile, with the clients and signing keys of files, and its address."""
    port = port or free_port()
    provider = subprocess.Popen(
        [str(npm.NODE), "provider.mjs", str(port), *map(str, clients)],
        cwd=installed,
        env={"PATH": os.defpath, **({"PROVIDER_KEYS": str(keys)} if keys else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert provider.stdout is not None
        address = provider.stdout.readline().decode().strip()  # at its end it says nothing
        assert address == f"http://127.0.0.1:{port}"
        httpx.get(f"{address}/.well-known/openid-configuration", timeout=START_S).raise_for_status()
        yield address
    finally:
        provider.kill()
        provider.communicate()
