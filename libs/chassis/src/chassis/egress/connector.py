"""Connections of aiohttp that check where they connect, each time one is made.

A host is resolved, every address is checked, and the connection is made to one of them, as `pools` does.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

from aiohttp import TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.helpers import is_ip_address

from chassis.egress.addresses import Address, AddressRefused, EgressRules, parse, refusal
from chassis.egress.pools import Judge, Resolve, refuse, resolve


class CheckedResolver(AbstractResolver):
    """Gives the addresses of a host that may be reached."""

    def __init__(self, scheme: str, allowed: EgressRules, judge: Judge, resolver: Resolve) -> None:
        self._scheme = scheme
        self._allowed = allowed
        self._judge = judge
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve and check the addresses of a host. Raises: OSError, AddressRefused."""
        del family  # all families of the host are used
        try:
            addresses = await asyncio.to_thread(self._resolver, host, port)
        except UnicodeError as error:
            raise OSError("the host has no address") from error
        self.check(host, port, addresses)
        return [_result(host, address, port) for address in addresses]

    def check(self, host: str, port: int, addresses: list[Address]) -> None:
        """Raises: AddressRefused where nothing may be sent to these addresses."""
        why = refusal(self._scheme, host, port, addresses, self._allowed)
        if why is not None:
            self._judge(why)

    async def close(self) -> None:
        """Do nothing: it has nothing to close."""


def connector(
    scheme: str,
    host: str,
    port: int,
    context: ssl.SSLContext,
    allowed: EgressRules,
    judge: Judge = refuse,
    resolver: Resolve = resolve,
) -> TCPConnector:
    """Build a connector for requests to one host, a name or an address. Raises: AddressRefused."""
    checked = CheckedResolver(scheme, allowed, judge, resolver)
    if is_ip_address(host):  # aiohttp calls no resolver for these, and connects to no other spelling
        checked.check(host, port, [_parse_address(host)])
    return TCPConnector(resolver=checked, use_dns_cache=False, limit=0, ssl=context)


def _parse_address(host: str) -> Address:
    try:
        return parse(host)
    except ValueError:
        raise AddressRefused("its host is no address as addresses are written") from None


def _result(host: str, address: Address, port: int) -> ResolveResult:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return ResolveResult(hostname=host, host=str(address), port=port, family=family, proto=0, flags=0)
