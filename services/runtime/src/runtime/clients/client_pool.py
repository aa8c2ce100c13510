"""The clients that a process keeps open, one of each server, until it ends."""

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
        """Close them, in the loop."""


DENIED: Final = "SINK_DENIED"
"""Of a server that does not take what it is shown of who calls."""
TLS: Final = "SINK_TLS"
"""Of one that is not whom its certificates speak of, or does not take ours."""
_Server = TypeVar("_Server")
_Client = TypeVar("_Client", bound=Closable)
_Answer = TypeVar("_Answer")


class Kept(Generic[_Server, _Client]):
    """Clients by their servers. A process that was forked meanwhile has none of them."""

    def __init__(self, make: Callable[[_Server], _Client]) -> None:
        self._make = make
        self._open: dict[_Server, _Client] = {}
        self._parents: list[dict[_Server, _Client]] = []
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.clear)  # before the loop ends, which was registered first

    def client(self, server: _Server) -> _Client:
        """The one for a server, which stays open. Raises: what making one raises."""
        if server not in self._open:
            self._open[server] = self._make(server)
        return self._open[server]

    def run(self, server: _Server, call: Callable[[_Client], Coroutine[Any, Any, _Answer]]) -> _Answer:
        """What a call of the server's client answers; once more with another client, of secrets and
        certificates as they are now, where those that it has are no good.

        Raises: what the call raises.
        """
        try:
            return eventloop.run(call(self.client(server)))
        except JobError as error:
            if error.error.reason not in (DENIED, TLS):
                raise
        self.drop(server)
        return eventloop.run(call(self.client(server)))

    def drop(self, server: _Server) -> None:
        """Close that of a server: the next one reads its secret, and looks its server up, anew."""
        client = self._open.pop(server, None)
        if client is not None:
            eventloop.run(client.close())

    def _forget(self) -> None:
        """In a child: what the parent has open stays untouched. One that is collected closes its connections,
        and takes them out of the `epoll` that both processes share, so that the parent hears nothing more.
        """
        self._parents.append(self._open)
        self._open = {}

    def clear(self) -> None:
        """Close each."""
        for server in [*self._open]:
            with suppress(RuntimeError):
                self.drop(server)
