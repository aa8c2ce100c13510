"""`python -m portal`: read the settings, build the portal, serve until SIGTERM.

It has the shape and the exit codes of `chassis.service`. A restart loses nothing but open streams, which
pages open again.
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
from portal.entry import Links, LoginMethod
from portal.provider import LoginProvider, OidcClient
from portal.server import PortalPlan, serving
from portal.settings import PortalSettings

_MIN_KEY: Final = 32
_IDLE_S: Final = 8 * 3600.0
"""Seconds without use after which a session ends: a working day."""
_LIFE_S: Final = 24 * 3600.0
"""Seconds after its login when a session ends: nobody stays logged in for more than a day."""
_DRAIN_S: Final = 5.0
"""Seconds that calls may take after SIGTERM: pages repeat them."""
_PER_ADDRESS: Final = 1_000
"""Connections per address: a browser has several, and all browsers behind a proxy share its address."""
_SCOPE: Final = "openid email groups offline_access"


def main(argv: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    return service.run("portal", PortalSettings, argv, read=read, serve=_serve)


def read(settings: PortalSettings) -> PortalPlan:
    """Build the plan of a portal, and read the files that settings name. Raises: OSError, ValueError."""
    own_directory(settings, "state_dir")
    certificate = None
    if settings.tls_cert_file is not None and settings.tls_key_file is not None:
        certificate = settings.tls_cert_file, settings.tls_key_file
        _is_served(*certificate)
    return PortalPlan(
        bind=settings.bind,
        gateway=settings.gateway,
        authority=settings.gateway_ca_file.read_bytes() if settings.gateway_ca_file else None,
        origin=settings.origin,
        login_method=_login_method(settings),
        sessions=settings.state_dir / "sessions.sqlite",
        idle_s=_IDLE_S,
        life_s=_LIFE_S,
        drain_s=_DRAIN_S,
        certificate=certificate,
        metrics_bind=settings.metrics_bind,
        connections_per_address=settings.connections_per_address or _PER_ADDRESS,
        links=Links(settings.notebook_url, settings.grafana_url),
    )


def _login_method(settings: PortalSettings) -> LoginMethod:
    parts = urlsplit(settings.origin)
    secure = parts.scheme == "https"
    # cookies ignore ports: portals of one machine need different names
    cookie = "__Host-daggers" if secure else f"daggers-{parts.port or 80}"
    if settings.oidc_issuer is not None and settings.oidc_client_id is not None:
        secret = _line(settings.oidc_client_secret_file) if settings.oidc_client_secret_file else None
        redirect = f"{settings.origin}/auth/callback"
        client = OidcClient(
            settings.oidc_issuer, settings.oidc_client_id, secret, settings.oidc_scope or _SCOPE, redirect
        )
        return LoginMethod(LoginProvider(client), cookie=cookie, secure=secure)
    key = _line(settings.key_file) if settings.key_file else None
    if key is not None and len(key) < _MIN_KEY:
        raise ValueError(f"the key in {settings.key_file} has less than {_MIN_KEY} characters")
    return LoginMethod(None, key, _token(settings.token_file), cookie, secure)


def _is_served(chain: Path, key: Path) -> None:
    """Check that TLS can be served with a certificate and its key. Raises: ValueError."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key, password="")
    except ssl.SSLError as why:
        raise ValueError(f"{chain} and {key} are no certificate and its key: {why.reason or why}") from why


def _token(file: Path | None) -> Callable[[], str] | None:
    """Build a function that reads the token from its file at each call, since it may be replaced.

    Raises: OSError, ValueError.
    """
    if file is None:
        return None
    _line(file)
    return lambda: _line(file)


def _line(file: Path) -> str:
    """Read the only line of a secret's file. Raises: OSError, ValueError."""
    text = file.read_text(encoding="utf-8").strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{file} must hold one line without spaces, and nothing else")
    return text


async def _serve(plan: PortalPlan, stop: asyncio.Event) -> None:
    async with serving(plan):
        await stop.wait()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
