"""A gRPC server with many methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc


class Generic:
    """A server as generated code adds a service to it, which then looks methods up by their names.

    Of methods that are registered gRPC waits for each by itself: at every call it begins to wait anew for all
    of them, so that a call costs more the more methods there are.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Look methods up here."""
        self._server.add_generic_rpc_handlers(tuple(handlers))

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """Ignore registered methods: this server finds handlers by name."""
