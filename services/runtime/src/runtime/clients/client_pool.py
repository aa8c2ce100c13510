"""Pool the clients of a process: one for each server, open until the process ends."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from runtime.clients import eventloop
from runtime.errors import JobError


class Closable(Protocol):
    """A client with connections."""

    async def close(self) -> None:
        """Close the connections, in the event loop."""


DENIED: Final = "SINK_DENIED"
"""Reason of a server that rejects the credentials it was given."""
TLS: Final = "SINK_TLS"
"""Reason of a server whose certificate is not valid for it, or that rejects ours."""
_Server = TypeVar("_Server")
_Client = TypeVar("_Client", bound=Closable)
_Result = TypeVar("_Result")


class ClientPool(Generic[_Server, _Client]):
    """Opens clients by server and keeps them open. A forked child starts with an empty pool."""

    def __init__(self, make: Callable[[_Server], _Client]) -> None:
        self._make = make
        self._open: dict[_Server, _Client] = {}
        self._parents: list[dict[_Server, _Client]] = []
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.clear)  # before the loop ends, which was registered first

    def client(self, server: _Server) -> _Client:
        """Return the open client of a server, made where there is none. Raises: what making one raises."""
        if server not in self._open:
            self._open[server] = self._make(server)
        return self._open[server]

    def run(self, server: _Server, call: Callable[[_Client], Coroutine[Any, Any, _Result]]) -> _Result:
        """Run a call with the server's client, and return its answer.

        Where the server rejects its credentials or certificates, the call is repeated once by a new client,
        which reads both again: they may have been rotated. Raises: what the call raises.
        """
        try:
            return eventloop.run(call(self.client(server)))
        except JobError as error:
            if error.error.reason not in (DENIED, TLS):
                raise
        self.drop(server)
        return eventloop.run(call(self.client(server)))

    def drop(self, server: _Server) -> None:
        """Close the client of a server. The next one reads the secret and resolves the name again."""
        client = self._open.pop(server, None)
        if client is not None:
            eventloop.run(client.close())

    def _forget(self) -> None:
        """Start empty in a forked child, and keep the parent's clients referenced.

        A client that is garbage-collected closes its connections and removes them from the `epoll` that both
        processes share: the parent would get no more events.
        """
        self._parents.append(self._open)
        self._open = {}

    def clear(self) -> None:
        """Close all clients."""
        for server in [*self._open]:
            with suppress(RuntimeError):
                self.drop(server)
