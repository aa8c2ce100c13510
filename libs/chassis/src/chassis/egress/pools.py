"""Pools of urllib3 whose connections check where they connect, each time one is made.

A host is resolved, every address is checked, and the connection is made to a checked one, as `transport`
does. Redirects are followed by connections of the same pools, so they are checked, too.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
from urllib3.util.connection import create_connection

from chassis.egress.addresses import PORTS, Address, AddressRefused, EgressRules, parse, refusal

Resolve = Callable[[str, int], list[Address]]
Judge = Callable[[str], None]
"""Takes why nothing may be sent somewhere. Raises: AddressRefused; or not, and it is sent all the same."""
Pools = dict[str, type]


def resolve(host: str, port: int) -> list[Address]:
    """Resolve a host on this machine. Raises: OSError."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(parse(str(sockaddr[0])) for *_, sockaddr in answers))


def refuse(why: str) -> None:
    """Raises: AddressRefused."""
    raise AddressRefused(why)


Target = tuple[str, str, int]
"""Scheme, host and port."""


def pools(
    allowed: EgressRules,
    judge: Judge = refuse,
    resolver: Resolve = resolve,
    *,
    by_proxy: Target | None = None,
) -> Pools:
    """Build the `pool_classes_by_scheme` of a PoolManager.

    by_proxy: target that a ProxyManager's proxy calls, which is checked in place of the proxy. Connections
    raise AddressRefused beside urllib3's errors.
    """

    def connect(connection: HTTPConnection) -> socket.socket:
        if by_proxy is not None:
            judge_target(*by_proxy, allowed, judge, resolver)
            return create_connection((connection.host.strip("[]"), connection.port or 0), connection.timeout)
        scheme = "https" if isinstance(connection, HTTPSConnection) else "http"
        host, port = connection.host, connection.port or PORTS[scheme]
        try:
            addresses = resolver(host.strip("[]"), port)
        except (OSError, UnicodeError) as error:
            raise NewConnectionError(connection, "the host has no address") from error
        why = refusal(scheme, host, port, addresses, allowed)
        if why is not None:
            judge(why)
        return _first(connection, addresses, port)

    class CheckedConnection(HTTPConnection):
        _new_conn = connect

    class CheckedTLS(HTTPSConnection):
        _new_conn = connect

    class Pool(HTTPConnectionPool):
        ConnectionCls = CheckedConnection

    class PoolTLS(HTTPSConnectionPool):
        ConnectionCls = CheckedTLS

    return {"http": Pool, "https": PoolTLS}


def judge_target(
    scheme: str,
    host: str,
    port: int,
    allowed: EgressRules,
    judge: Judge = refuse,
    resolver: Resolve = resolve,
) -> None:
    """Judge whom a proxy is to call, by what this machine resolves. A name that it does not know the proxy
    judges. Raises: AddressRefused.
    """
    try:
        addresses = resolver(host.strip("[]"), port)
    except (OSError, UnicodeError):
        addresses = []
    why = refusal(scheme, host, port, addresses, allowed)
    if why is not None:
        judge(why)


def _first(connection: HTTPConnection, addresses: Sequence[Address], port: int) -> socket.socket:
    """Connect to the first address that answers. Raises: NewConnectionError, ConnectTimeoutError."""
    failure: HTTPError = NewConnectionError(connection, "the host has no address")
    for address in addresses:
        try:
            return create_connection(
                (str(address), port),
                connection.timeout,
                source_address=connection.source_address,
                socket_options=connection.socket_options,
            )
        except TimeoutError:
            failure = ConnectTimeoutError(connection, "the host does not answer")
        except OSError as error:
            failure = NewConnectionError(connection, f"no connection: {error.strerror}")
    raise failure
