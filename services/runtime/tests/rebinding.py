"""A program in a network of its own whose DNS server changes its answer: where do clients of sinks connect?

    unshare --mount --net python -m services.runtime.tests.rebinding

As root. Prints a JSON object: by client, what became of two attempts, and how many connections came to the
public address and to loopback.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import httpx
import urllib3
from daggers.v1 import spec_pb2
from yarl import URL

from chassis.egress.addresses import EgressRules
from chassis.egress.connector import connector
from chassis.egress.pools import refuse
from chassis.egress.transport import CheckedTransport
from runtime.clients import egress

PUBLIC, LOOPBACK, PORT = "93.184.215.14", "127.0.0.1", 4443
ENFORCED = spec_pb2.Egress(enforce=True)
_PATIENCE_S = 5.0


class Names:
    """A DNS server on loopback: a name leads to the public address when it is asked first, to loopback after.

    No name has an IPv6 address.
    """

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((LOOPBACK, 53))

    def serve(self) -> None:
        while True:
            query, caller = self._socket.recvfrom(512)
            labels, at = [], 12
            while length := query[at]:
                labels.append(query[at + 1 : at + 1 + length].decode())
                at += 1 + length
            (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
            answer, name = b"", ".".join(labels).lower()
            if kind == 1:
                first = self.asked.setdefault(name, 0) == 0
                self.asked[name] += 1
                address = socket.inet_aton(PUBLIC if first else LOOPBACK)
                answer = struct.pack("!HHHIH", 0xC00C, 1, 1, 0, 4) + address
            head = query[:2] + struct.pack("!HHHHH", 0x8580, 1, bool(answer), 0, 0)
            self._socket.sendto(head + query[12 : at + 5] + answer, caller)


class Listener:
    """Counts connections, and ends them."""

    def __init__(self, address: str) -> None:
        self._address = (address, PORT)
        self._accepted = self._own = 0
        self._socket = socket.create_server(self._address)

    def serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            self._accepted += 1
            connection.close()

    def count(self) -> int:
        """Count the connections until now: those not yet accepted come before this one's own."""
        with socket.create_connection(self._address, _PATIENCE_S) as own:
            own.recv(1)
        self._own += 1
        return self._accepted - self._own


def _by_pool(host: str) -> None:
    """As the sink influx calls."""
    manager = urllib3.PoolManager(retries=False)
    manager.pool_classes_by_scheme = egress.checked_pools(ENFORCED, host)
    manager.request("GET", f"https://{host}:{PORT}/", timeout=_PATIENCE_S)


def _by_connector(host: str) -> None:
    """As the sink http calls."""

    async def call() -> None:
        import aiohttp

        made = connector("https", host, PORT, ssl.create_default_context(), EgressRules(), refuse)
        async with aiohttp.ClientSession(
            connector=made, timeout=aiohttp.ClientTimeout(_PATIENCE_S)
        ) as session:
            await session.get(URL(f"https://{host}:{PORT}/"))

    asyncio.run(call())


def _by_transport(host: str) -> None:
    """As the health monitor and the gateway call receivers and providers."""

    async def call() -> None:
        transport = CheckedTransport(EgressRules(), ssl.create_default_context())
        async with httpx.AsyncClient(transport=transport, timeout=_PATIENCE_S) as client:
            await client.get(f"https://{host}:{PORT}/")

    asyncio.run(call())


def _by_addresses(host: str) -> None:
    """As the sinks postgres and redis connect: to what was judged, whatever the name leads to by then."""
    judged = egress.resolve_addresses(ENFORCED, host, host, PORT)
    socket.getaddrinfo(host, PORT)  # what a client would get that asked again
    for address in judged:
        socket.create_connection((address, PORT), _PATIENCE_S).close()


CLIENTS: dict[str, Callable[[str], None]] = {
    "pool": _by_pool,
    "connector": _by_connector,
    "transport": _by_transport,
    "addresses": _by_addresses,
}


def main() -> None:
    """Have each client call a name of its own twice."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{PUBLIC}/32", "dev", "lo"], check=True)
    with NamedTemporaryFile("w") as told:
        told.write(f"nameserver {LOOPBACK}\noptions timeout:1 attempts:2\n")
        told.flush()
        subprocess.run(["mount", "--bind", told.name, str(Path("/etc/resolv.conf").resolve())], check=True)
        names, public, loopback = Names(), Listener(PUBLIC), Listener(LOOPBACK)
        for server in (names, public, loopback):
            threading.Thread(target=server.serve, daemon=True).start()
        found = {}
        for client, call in CLIENTS.items():
            before = public.count(), loopback.count()
            attempts = []
            for _ in range(2):
                try:
                    call(f"{client}.rebound.example")
                    attempts.append("connected")
                except Exception as error:  # noqa: BLE001 - what it is, is told
                    attempts.append(_kind(error))
            came = public.count() - before[0], loopback.count() - before[1]
            found[client] = {"attempts": attempts, "public": came[0], "loopback": came[1]}
        sys.stdout.write(json.dumps(found))


def _kind(error: BaseException) -> str:
    """The name of what is behind an error: a refusal of ours stands behind those of clients."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    named = [type(each).__name__ for each in chain]
    return "AddressRefused" if "AddressRefused" in named else named[0]


if __name__ == "__main__":
    main()
