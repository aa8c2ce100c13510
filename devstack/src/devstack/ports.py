"""Free loopback ports, kept from one start to the next where they can be."""

import random
import socket
from collections.abc import Iterable, Mapping
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"
# Below the usual ephemeral range (from 32768): the port of a stopped stack does not become some client's.
FIRST, LAST = 20_000, 32_000
ATTEMPTS = 200


def choose(names: Iterable[str], before: Mapping[str, int]) -> dict[str, int]:
    """Choose a port for each name: the one it had before if that is free, else another free one."""
    chosen: dict[str, int] = {}
    with ExitStack() as listeners:
        for name in names:
            wanted = [before[name]] if name in before else []
            wanted += [random.randint(FIRST, LAST) for _ in range(ATTEMPTS)]  # noqa: S311 - not a secret
            chosen[name] = next(bound for port in [*wanted, 0] if (bound := _hold(listeners, port)))
    return chosen


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this loopback port now."""
    with ExitStack() as listeners:
        return _hold(listeners, port) is not None


def is_open(port: int) -> bool:
    """Tell whether something accepts connections on this loopback port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


def _hold(listeners: ExitStack, port: int) -> int | None:
    """Bind a port until `listeners` closes, so that no two names get the same; None if it is taken."""
    # SO_REUSEADDR as servers set it: connections that linger after a stop do not make a port taken
    listener = listeners.enter_context(socket.socket())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(1)
    except OSError:
        return None
    bound: int = listener.getsockname()[1]
    return bound
