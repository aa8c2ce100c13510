"""scan.py SECONDS ADDRESS PORTS…: which TCP ports of an address take a connection, as a line of JSON.

PORTS are numbers, or `all`. SECONDS is how long a port that says nothing is waited for; one that refuses does
so at once. A program of its own: it runs in a container, too.
"""

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 32


def takes(address: str, port: int, patience_s: float) -> bool:
    """Whether a port takes a connection."""
    with socket.socket() as connection:
        connection.settimeout(patience_s)
        return connection.connect_ex((address, port)) == 0


def scan(address: str, ports: list[int], patience_s: float) -> list[int]:
    """Those that do."""

    def some(first: int) -> list[int]:
        return [port for port in ports[first::AT_ONCE] if takes(address, port, patience_s)]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return sorted(port for taken in threads.map(some, range(AT_ONCE)) for port in taken)


if __name__ == "__main__":
    wanted = list(range(1, 65536)) if sys.argv[3] == "all" else [int(port) for port in sys.argv[3:]]
    sys.stdout.write(f"{json.dumps(scan(sys.argv[2], wanted, float(sys.argv[1])))}\n")
