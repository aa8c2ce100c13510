"""A real HTTP proxy on loopback, which records whom it is asked for: CONNECT, and requests of whole URLs."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class ForwardProxy:
    """`asked` is whom it was asked for, as `CONNECT host:port` or `GET http://…`."""

    def __init__(self, to: dict[str, int], user: str = "") -> None:
        """to: the port of this machine that stands for a host; user: `name:password` that has to be shown."""
        self.asked: list[str] = []
        self._to = to
        self._shown = f"Basic {base64.b64encode(user.encode()).decode()}" if user else ""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.url = f"http://{f'{user}@' if user else ''}127.0.0.1:{self.port}"

    def serve(self) -> None:
        """Until it is closed."""
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(taken,), daemon=True).start()

    def close(self) -> None:
        """Take nobody any more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _carry(self, taken: socket.socket) -> None:
        with taken, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (more := taken.recv(65536)):
                    return
                head += more
            lines = head.split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
            method, target, _ = lines[0].split(" ", 2)
            self.asked.append(f"{method} {target}")
            shown = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
            if self._shown and shown.get("proxy-authorization") != self._shown:
                taken.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
            if parts.hostname not in self._to:
                taken.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", self._to[parts.hostname])) as there:
                if method == "CONNECT":
                    taken.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
                    there.sendall(head.replace(target.encode(), path.encode(), 1))
                back = threading.Thread(target=_pump, args=(there, taken), daemon=True)
                back.start()
                _pump(taken, there)
                back.join(10)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def serving(to: dict[str, int], user: str = "") -> Iterator[ForwardProxy]:
    """A proxy while the block runs."""
    proxy = ForwardProxy(to, user)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(10)
