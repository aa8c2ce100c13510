"""A TCP proxy in front of a server, whose connections can be cut, held and slowed."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
CHUNK = 65_536
Read = Callable[[socket.socket], bytes]


class Proxy:
    """Listens on loopback at `port` and forwards to the loopback port `target`, until its context ends.

    kafka: the server is a Kafka broker. It tells its clients where it listens, and what it tells is changed
    to the proxy's port, or they would go past the proxy from their second connection on.
    listener: where it listens instead, which may be in another network.
    touched: set once a client has come. url: where a server that speaks HTTP is reached through the proxy.
    """

    def __init__(self, target: int, *, kafka: bool = False, listener: socket.socket | None = None) -> None:
        self._target = target
        self._listener = listener or socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://{LOOPBACK}:{self.port}"
        self.touched = threading.Event()
        self._connections: set[socket.socket] = set()
        self._delay_s = 0.0
        self._is_cut = False
        self._is_deaf = False
        self._deaf: set[socket.socket] = set()
        self._left: int | None = None
        self._serving = threading.Event()
        self._serving.set()
        self._done = threading.Event()
        self._answers: Read = _chunk
        self._has_no_lease = False
        if kafka:
            self._answers = self._answer_of_broker
        self._acceptor = threading.Thread(target=self._accept, name=f"proxy-{target}", daemon=True)

    def __enter__(self) -> "Proxy":
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self.cut()
        self._serving.set()
        with suppress(OSError):  # wakes the thread that waits in accept; close alone does not
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()

    def cut(self) -> None:
        """Drop every connection, and from now on each new one at once."""
        self._is_cut = True
        self._drop()

    def cut_after(self, size: int) -> None:
        """Cut once clients have said so many bytes more, amid what is said then."""
        self._left = size

    def hold(self) -> None:
        """Accept new connections, and be silent: nothing goes to the server or comes back."""
        self._serving.clear()

    def deafen(self) -> None:
        """Forward what clients say, and drop what they are answered."""
        self._is_deaf = True

    def hear_new_ones(self) -> None:
        """Forward what clients are answered that come from now on; those that are there stay deaf."""
        self._deaf |= self._connections
        self._is_deaf = False

    def end_lease(self) -> None:
        """Answer as a broker that its controller takes for dead: Metadata has topics and no broker."""
        self._has_no_lease = True

    def open(self) -> None:
        """Forward from now on, also what is held."""
        self._is_cut = self._is_deaf = self._has_no_lease = False
        self._deaf.clear()
        self._left = None
        self._serving.set()

    @contextmanager
    def slowed(self, delay_s: float) -> Iterator[None]:
        """Hold back every piece of data for `delay_s` seconds, one after the other."""
        self._delay_s = delay_s
        try:
            yield
        finally:
            self._delay_s = 0.0

    def _answer_of_broker(self, server: socket.socket) -> bytes:
        """The next answer of a broker, which says that it listens here."""
        told, ours = (LOOPBACK.encode() + port.to_bytes(4, "big") for port in (self._target, self.port))
        answer = _frame(server).replace(told, ours)
        if not self._has_no_lease:
            return answer
        # The one broker of the list: id, host, port, rack (null), tags; as an array of flexible versions.
        broker = re.escape(bytes([len(LOOPBACK) + 1])) + re.escape(ours) + rb"\x00\x00"
        body = re.sub(rb"\x02.{4}" + broker, b"\x01", answer[4:], flags=re.DOTALL)
        return len(body).to_bytes(4, "big") + body

    def _drop(self) -> None:
        for connection in tuple(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.touched.set()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One connection, both ways."""
        self._serving.wait()
        try:
            server = socket.create_connection((LOOPBACK, self._target), timeout=10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections |= {client, server}
        if self._is_cut:
            self._drop()
        threading.Thread(target=self._pass, args=(self._answers, server, client, True), daemon=True).start()
        self._pass(_chunk, client, server)

    def _pass(self, read: Read, source: socket.socket, sink: socket.socket, answers: bool = False) -> None:
        """One way of one connection, until either end is gone."""
        with suppress(OSError):
            while data := read(source):
                if self._delay_s:
                    self._done.wait(self._delay_s)
                if self._left is not None and not answers:
                    data, self._left = data[: max(self._left, 0)], self._left - len(data)
                if not (answers and (self._is_deaf or source in self._deaf)):
                    sink.sendall(data)
                if self._left is not None and self._left <= 0:
                    self.cut()
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()  # each way closes the end that it alone reads
        self._connections.discard(source)
        self._deaf.discard(source)


def port_of(url: str) -> int:
    """The port of a server on loopback."""
    port = urlsplit(url).port
    assert port
    return port


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
