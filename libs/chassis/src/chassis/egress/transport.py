"""An HTTP transport of httpx that checks where it connects, at every request.

It resolves the host, checks every address, and connects to a checked one: no name is resolved again in
between, so one that is rebound after the check gains nothing. Certificates are checked against the name.

What leaves by a proxy is judged all the same, by what this machine resolves, and told the proxy by its name:
the proxy resolves it again, or alone (ADR 185).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable

import httpx

from chassis.egress.addresses import PORTS, Address, AddressRefused, EgressRules, parse, refusal
from chassis.egress.proxies import Proxies

Resolve = Callable[[str, int], Awaitable[list[Address]]]


async def resolve(host: str, port: int) -> list[Address]:
    """Resolve a host on this machine. Raises: OSError."""
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(parse(str(sockaddr[0])) for *_, sockaddr in answers))


class CheckedTransport(httpx.AsyncBaseTransport):
    """Sends a request to a checked address of its host, trying each in turn until one connects.

    Raises: AddressRefused; httpx.ConnectError when the host has no address or none of them answers.
    """

    def __init__(
        self,
        allowed: EgressRules,
        context: ssl.SSLContext,
        resolver: Resolve = resolve,
        proxies: Proxies = Proxies(),  # noqa: B008 - it is frozen
    ) -> None:
        self._allowed = allowed
        self._context = context
        self._proxies = proxies
        self._by_proxy: dict[str, httpx.AsyncHTTPTransport] = {}
        self._resolve = resolver
        # Pooled connections are known by address: two hosts at one address must not share one.
        self._inner = httpx.AsyncHTTPTransport(
            verify=context, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Check, connect, send.

        Raises: AddressRefused for a host that may not be called, httpx.ConnectError.
        """
        scheme, host = request.url.scheme, request.url.host
        port = request.url.port or PORTS.get(scheme, 0)
        proxy = self._proxies.of(scheme, host, port)
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            if proxy is None:
                raise httpx.ConnectError("the host has no address") from error
            addresses = []  # a name that the proxy alone knows
        why = refusal(scheme, host, port, addresses, self._allowed)
        if why is not None:
            raise AddressRefused(why)
        if proxy is not None and not (addresses and all(address.is_loopback for address in addresses)):
            return await self._through(proxy).handle_async_request(request)
        failure = httpx.ConnectError("the host has no address")
        for address in addresses:
            pinned = httpx.Request(
                method=request.method,
                url=request.url.copy_with(host=str(address)),
                headers=request.headers,  # Host is the name's
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except httpx.ConnectError as error:
                failure = error
        raise failure

    def _through(self, proxy: str) -> httpx.AsyncHTTPTransport:
        if proxy not in self._by_proxy:
            self._by_proxy[proxy] = httpx.AsyncHTTPTransport(
                verify=self._context,
                trust_env=False,
                proxy=httpx.Proxy(proxy),
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        return self._by_proxy[proxy]

    async def aclose(self) -> None:
        """Close every connection."""
        await self._inner.aclose()
        for transport in self._by_proxy.values():
            await transport.aclose()
