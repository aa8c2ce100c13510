"""A TCP proxy in front of a server whose connections can be cut and slowed."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

LOOPBACK = "127.0.0.1"
CHUNK = 65_536
Read = Callable[[socket.socket], bytes]


class Proxy:
    """Listens on loopback at `port` and forwards to the loopback port `target`, until its context ends.

    kafka: the server is a Kafka broker. It tells its clients where it listens, and what it tells is changed
    to the proxy's port, or they would go past the proxy from their second connection on.
    """

    def __init__(self, target: int, *, kafka: bool = False) -> None:
        self._target = target
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._delay_s = 0.0
        self._passing = True
        self._done = threading.Event()
        self._answers: Read = _chunk
        if kafka:
            told, ours = (LOOPBACK.encode() + port.to_bytes(4, "big") for port in (target, self.port))
            self._answers = lambda server: _frame(server).replace(told, ours)
        self._acceptor = threading.Thread(target=self._accept, name=f"proxy-{target}", daemon=True)

    def __enter__(self) -> "Proxy":
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        with suppress(OSError):  # wakes the thread that waits in accept; close alone does not
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        self._drop()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Drop every connection, and each new one at once."""
        self._passing = False
        self._drop()
        try:
            yield
        finally:
            self._passing = True

    @contextmanager
    def slowed(self, delay_s: float) -> Iterator[None]:
        """Hold back every piece of data for `delay_s` seconds, one after the other."""
        self._delay_s = delay_s
        try:
            yield
        finally:
            self._delay_s = 0.0

    def _drop(self) -> None:
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((LOOPBACK, self._target), timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open |= {client, server}
            if not self._passing:
                self._drop()
            ways = ((_chunk, client, server), (self._answers, server, client))
            for read, source, sink in ways:
                threading.Thread(target=self._pass, args=(read, source, sink), daemon=True).start()

    def _pass(self, read: Read, source: socket.socket, sink: socket.socket) -> None:
        """One way of one connection, until either end is gone."""
        with suppress(OSError):
            while data := read(source):
                if self._delay_s:
                    self._done.wait(self._delay_s)
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()  # each way closes the end that it alone reads
        self._open.discard(source)


def _chunk(source: socket.socket) -> bytes:
    """What has come; empty at the end."""
    return source.recv(CHUNK)


def _frame(source: socket.socket) -> bytes:
    """The next answer of a broker, with the four bytes of its length before it; empty at the end."""
    head = _exactly(source, 4)
    return head + _exactly(source, int.from_bytes(head, "big")) if head else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = source.recv(min(size - len(data), CHUNK))
        if not piece:
            return b""
        data += piece
    return bytes(data)
