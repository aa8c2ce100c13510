"""`python -m portal`: reads the settings, puts the parts together, serves until SIGTERM.

It has the shape and the exit codes of `chassis.service`. Started again, it loses nothing but open streams,
which pages ask for again.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from chassis import service
from chassis.settings import own_directory
from portal.entry import Links, Ways
from portal.provider import Client, Provider
from portal.server import Plan, serving
from portal.settings import PortalSettings

_MIN_KEY: Final = 32
_IDLE_S: Final = 8 * 3600.0
"""A session ends when nobody has used it for a working day."""
_LIFE_S: Final = 24 * 3600.0
"""A session ends a day after its login, so that who left does not stay in."""
_DRAIN_S: Final = 5.0
"""What calls that go on may take after SIGTERM: pages ask again by themselves."""
_PER_ADDRESS: Final = 1_000
"""Connections of one address: a browser has many, and everybody behind a proxy has its address."""
_SCOPE: Final = "openid email groups offline_access"


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT; answers the exit code."""
    return service.run("portal", PortalSettings, argv, read=read, serve=_serve)


def read(told: PortalSettings) -> Plan:
    """What the settings name. Raises: OSError, ValueError."""
    own_directory(told, "state_dir")
    certificate = None
    if told.tls_cert_file is not None and told.tls_key_file is not None:
        certificate = told.tls_cert_file, told.tls_key_file
        _is_served(*certificate)
    return Plan(
        bind=told.bind,
        gateway=told.gateway,
        authority=told.gateway_ca_file.read_bytes() if told.gateway_ca_file else None,
        origin=told.origin,
        ways=_ways(told),
        sessions=told.state_dir / "sessions.sqlite",
        idle_s=_IDLE_S,
        life_s=_LIFE_S,
        drain_s=_DRAIN_S,
        certificate=certificate,
        metrics_bind=told.metrics_bind,
        connections_per_address=told.connections_per_address or _PER_ADDRESS,
        links=Links(told.notebook_url, told.grafana_url),
    )


def _ways(told: PortalSettings) -> Ways:
    parts = urlsplit(told.origin)
    secure = parts.scheme == "https"
    # Cookies know no ports: portals of one machine must not take each other's.
    cookie = "__Host-daggers" if secure else f"daggers-{parts.port or 80}"
    if told.oidc_issuer is not None and told.oidc_client_id is not None:
        secret = _line(told.oidc_client_secret_file) if told.oidc_client_secret_file else None
        redirect = f"{told.origin}/auth/callback"
        client = Client(told.oidc_issuer, told.oidc_client_id, secret, told.oidc_scope or _SCOPE, redirect)
        return Ways(Provider(client), cookie=cookie, secure=secure)
    key = _line(told.key_file) if told.key_file else None
    if key is not None and len(key) < _MIN_KEY:
        raise ValueError(f"the key in {told.key_file} has less than {_MIN_KEY} characters")
    return Ways(None, key, _token(told.token_file), cookie, secure)


def _is_served(chain: Path, key: Path) -> None:
    """Raises: ValueError when the two cannot be served with."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key, password="")
    except ssl.SSLError as why:
        raise ValueError(f"{chain} and {key} are no certificate and its key: {why.reason or why}") from why


def _token(file: Path | None) -> Callable[[], str] | None:
    """Gives the token of a file, read again at each call: it may be replaced. Raises: OSError, ValueError."""
    if file is None:
        return None
    _line(file)
    return lambda: _line(file)


def _line(file: Path) -> str:
    """The one line of a secret's file. Raises: OSError, ValueError."""
    text = file.read_text(encoding="utf-8").strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{file} must hold one line without spaces, and nothing else")
    return text


async def _serve(plan: Plan, stop: asyncio.Event) -> None:
    async with serving(plan):
        await stop.wait()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
