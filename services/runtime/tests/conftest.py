"""What the runtime's tests stand on, beside the real stack: a way to a service that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest


@pytest.fixture(scope="session")
def influx(influx: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The database, its token in a file: what a launch may read."""
    return _readable(influx, tmp_path_factory)


@pytest.fixture(scope="session")
def influx2(influx2: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same of InfluxDB 2, where there is one."""
    return _readable(influx2, tmp_path_factory)


def _readable(database: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("secret") / "token"
    file.write_text(f"{database['token'] or 'user:password'}\n")
    return database | {"token_file": str(file)}


class Detour:
    """A TCP way to a service that can be cut, so that connections are refused, and mended."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        assert target.hostname
        assert target.port
        self._target = (target.hostname, target.port)
        self._listener: socket.socket | None = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._port}"
        self._serve()

    def cut(self) -> None:
        """Refuse connections and drop the ones there are."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
            listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let connections through again."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._serve()

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(self._target, timeout=10)
            except OSError:
                return
            self._open |= {client, server}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._open -= {source, sink}


@pytest.fixture
def detour(influx: dict[str, str]) -> Iterator[Any]:
    """A way to the database that can be cut and mended."""
    way = Detour(influx["url"])
    yield way
    way.cut()
