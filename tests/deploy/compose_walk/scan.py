"""scan.py SECONDS ADDRESS PORTS…: which TCP ports of an address take a connection, as a line of JSON.

PORTS are numbers, or `all`. A program of its own: it runs in a container, too.
"""

import asyncio
import json
import sys

AT_ONCE = 500


async def scan(address: str, ports: list[int], patience_s: float) -> list[int]:
    """Those that do."""
    slots, taken = asyncio.Semaphore(AT_ONCE), []

    async def look(port: int) -> None:
        async with slots:
            try:
                _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), patience_s)
            except (OSError, TimeoutError):
                return
            taken.append(port)
            writer.transport.abort()

    await asyncio.gather(*map(look, ports))
    return sorted(taken)


if __name__ == "__main__":
    wanted = list(range(1, 65536)) if sys.argv[3] == "all" else [int(port) for port in sys.argv[3:]]
    sys.stdout.write(f"{json.dumps(asyncio.run(scan(sys.argv[2], wanted, float(sys.argv[1]))))}\n")
