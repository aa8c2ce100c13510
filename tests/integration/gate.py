"""A TCP gate in front of a service: closed, it accepts and stays silent; open, it forwards."""

import contextlib
import socket
import threading
from types import TracebackType


class Gate:
    """Listens on loopback at `port`; forwards to `target` once opened."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._open = threading.Event()
        self._done = threading.Event()
        self.touched = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> "Gate":
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._open.set()
        # shutdown wakes the thread that waits in accept; close alone does not
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()

    def open(self) -> None:
        """Forward from now on, what is waiting included."""
        self._open.set()

    def _accept(self) -> None:
        with self._listener:
            while not self._done.is_set():
                try:
                    client, _ = self._listener.accept()
                except OSError:
                    return
                self.touched.set()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            self._open.wait()
            if self._done.is_set():
                return
            with contextlib.suppress(OSError), socket.create_connection(self._target, timeout=10) as server:
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                _copy(client, server)
                back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Pass bytes on until the source ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
