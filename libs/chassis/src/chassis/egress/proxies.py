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
"""Variables that name certificate authorities, of OpenSSL and httpx, and of the client of S3."""
_LOCAL: Final = "localhost"


@dataclass(frozen=True, slots=True)
class Proxies:
    """Proxies by scheme, and exempt hosts. The default: no proxies."""

    by_scheme: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The URL of the proxy for http and for https; it may hold a password."""
    exempt: tuple[str, ...] = ()
    """Targets that are called directly: hosts, .suffixes, networks; * is all."""

    @classmethod
    def of_environment(cls, own: str = "") -> Self:
        """Read the proxies of this process's environment.

        own: a setting in their place: the URL of a proxy for all, or `direct`; exemptions stay.
        Raises: ValueError for a setting that is neither.
        """
        variables = getproxies_environment()
        if own == DIRECT:
            return cls()
        if own:
            variables |= dict.fromkeys(("http", "https"), check_setting(own))
        exempt = tuple(variables.get("no", "").replace(",", " ").split())
        every = variables.get("all", "")
        urls = {scheme: _url(variables.get(scheme, "") or every) for scheme in ("http", "https")}
        return cls({scheme: url for scheme, url in urls.items() if url}, exempt)

    def of(self, scheme: str, host: str, port: int) -> str | None:
        """Return the URL of the proxy for a host; None: call it directly."""
        host = host.strip("[]").rstrip(".").lower()
        if is_local(host) or any(_covers(entry.lower(), host, port) for entry in self.exempt):
            return None
        return self.by_scheme.get(scheme)


def handed_on(inherited: Mapping[str, str], own: str = "") -> dict[str, str]:
    """Build the environment of a child whose calls use the proxies of `own`; see `Proxies.of_environment`."""
    if own == "":
        return dict(inherited)
    exempt = {"no_proxy", "NO_PROXY"}
    others = {name: value for name, value in inherited.items() if name not in VARIABLES or name in exempt}
    return others if own == DIRECT else others | dict.fromkeys(("http_proxy", "https_proxy"), own)


def proxy_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """Select the variables of proxies and certificate authorities, for a child that gets few others."""
    return {name: inherited[name] for name in (*VARIABLES, *AUTHORITIES) if name in inherited}


def check_setting(setting: str) -> str:
    """Check that a setting is a proxy's URL or `direct`; return it. Raises: ValueError, without the value."""
    if setting and setting != DIRECT and not _url(setting):
        raise ValueError(f"must be http://HOST:PORT of a proxy, or {DIRECT}")
    return setting


def is_local(host: str) -> bool:
    """Tell whether a host is this machine, by its name or address."""
    if host == _LOCAL or host.endswith(f".{_LOCAL}"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _url(text: str) -> str:
    """Complete the URL of an HTTP proxy, which may lack http://; empty when it is none."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        is_proxy = bool(text and parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        return ""
    return url if is_proxy else ""


def _covers(entry: str, host: str, port: int) -> bool:
    """Tell whether an entry of no_proxy covers a host: *, host, domain, address or network; or host:port."""
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
