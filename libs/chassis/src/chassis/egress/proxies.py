"""By which HTTP proxy a call leaves this machine: as the environment says, or a setting of ours.

http_proxy, https_proxy and all_proxy say the proxy of a scheme, no_proxy who is called without one; in upper
case they mean the same. A host on loopback is called directly, whatever they say. Proxies of other protocols
(socks5://) are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Final, Self
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

DIRECT: Final = "direct"
"""The word of a setting by which nothing goes by a proxy."""
VARIABLES: Final = tuple(
    name for word in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (word, word.upper())
)
AUTHORITIES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CA_BUNDLE")
"""Who names the authorities that sign the certificates of others: OpenSSL and httpx, and the client of S3."""
_LOCAL: Final = "localhost"


@dataclass(frozen=True, slots=True)
class Proxies:
    """Which proxy is whose. The default: none, of nobody."""

    by_scheme: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The URL of the proxy for http and for https; it may hold a password."""
    exempt: tuple[str, ...] = ()
    """Who is called directly: hosts, .suffixes, networks; * is everybody."""

    @classmethod
    def of_environment(cls, own: str = "") -> Self:
        """Those of this process's environment.

        own: a setting in their place: the URL of a proxy for all, or `direct`; who is exempt stays so.
        Raises: ValueError for a setting that is neither.
        """
        said = getproxies_environment()
        if own == DIRECT:
            return cls()
        if own:
            said |= dict.fromkeys(("http", "https"), checked(own))
        exempt = tuple(said.get("no", "").replace(",", " ").split())
        every = said.get("all", "")
        urls = {scheme: _url(said.get(scheme, "") or every) for scheme in ("http", "https")}
        return cls({scheme: url for scheme, url in urls.items() if url}, exempt)

    def of(self, scheme: str, host: str, port: int) -> str | None:
        """The URL of the proxy by which a host is called; None: it is called directly."""
        host = host.strip("[]").rstrip(".").lower()
        if is_local(host) or any(_covers(entry.lower(), host, port) for entry in self.exempt):
            return None
        return self.by_scheme.get(scheme)


def handed_on(inherited: Mapping[str, str], own: str = "") -> dict[str, str]:
    """An environment of a child that leaves this machine as `own` says; see `Proxies.of_environment`."""
    if own == "":
        return dict(inherited)
    exempt = {"no_proxy", "NO_PROXY"}
    kept = {name: value for name, value in inherited.items() if name not in VARIABLES or name in exempt}
    return kept if own == DIRECT else kept | dict.fromkeys(("http_proxy", "https_proxy"), own)


def passed(inherited: Mapping[str, str]) -> dict[str, str]:
    """What of an environment says by which proxies calls leave, and who is trusted there: for a child that is
    given little else.
    """
    return {name: inherited[name] for name in (*VARIABLES, *AUTHORITIES) if name in inherited}


def checked(setting: str) -> str:
    """A setting as it is. Raises: ValueError, without what stands in it, where it is no proxy's."""
    if setting and setting != DIRECT and not _url(setting):
        raise ValueError(f"must be http://HOST:PORT of a proxy, or {DIRECT}")
    return setting


def is_local(host: str) -> bool:
    """Whether a host is this machine by its name or address."""
    if host == _LOCAL or host.endswith(f".{_LOCAL}"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _url(text: str) -> str:
    """The URL of an HTTP proxy, which may be told without http://; empty where it is none."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        known = bool(text and parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        return ""
    return url if known else ""


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether an entry of no_proxy means a host: *, a host, a domain, an address, a network; host:port."""
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # one of them is a name
    named, _, of_port = entry.rpartition(":")
    if named and of_port.isdecimal():
        if int(of_port) != port:
            return False
        entry = named.strip("[]")
    domain = entry.removeprefix("*").lstrip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))
