"""What the faults of a chaos run are made of: the proxy, the full disk, the clock."""

import errno
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest
from tests.chaos.clock import LIBRARY, Clock
from tests.chaos.disks import LIMIT_BYTES, Disks, limited, mounted
from tests.proxy import LOOPBACK, Proxy

DEADLINE_S = 20.0


class Echo(socketserver.BaseRequestHandler):
    """Gives back what comes."""

    def handle(self) -> None:
        while data := self.request.recv(65_536):
            self.request.sendall(data)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of an echo server."""
    with Server((LOOPBACK, 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def connect(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), timeout=DEADLINE_S)


def said(connection: socket.socket, data: bytes) -> bytes:
    """What comes back; nothing when the connection was cut."""
    try:
        connection.sendall(data)
        back = b""
        while len(back) < len(data) and (piece := connection.recv(65_536)):
            back += piece
    except ConnectionError:
        return b""
    return back


def test_connections_are_cut_and_new_ones_work_when_it_is_over(echo: int) -> None:
    with Proxy(echo) as proxy, connect(proxy.port) as old:
        before = said(old, b"before")
        proxy.cut()
        during_old = said(old, b"during")
        with connect(proxy.port) as new:
            during_new = said(new, b"during")
        proxy.open()
        with connect(proxy.port) as newer:
            after = said(newer, b"after")

    assert (before, during_old, during_new, after) == (b"before", b"", b"", b"after")


def test_what_is_held_is_forwarded_when_it_is_over(echo: int) -> None:
    with Proxy(echo) as proxy:
        proxy.hold()
        before = proxy.touched.is_set()
        with connect(proxy.port) as connection:
            connection.sendall(b"held")
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(DEADLINE_S)
            proxy.open()
            back = connection.recv(65_536)

    assert (before, back, proxy.touched.is_set()) == (False, b"held", True)


def test_connections_are_slowed_and_fast_again_when_it_is_over(echo: int) -> None:
    delay_s = 0.3
    with Proxy(echo) as proxy, connect(proxy.port) as connection:
        begin = time.monotonic()
        with proxy.slowed(delay_s):
            slow = said(connection, b"slow")
        took = time.monotonic() - begin
        fast = said(connection, b"fast" * 100_000)

    assert (slow, fast) == (b"slow", b"fast" * 100_000)
    assert 2 * delay_s <= took < DEADLINE_S


def test_a_broker_is_told_of_at_the_port_of_the_proxy(echo: int) -> None:
    told = LOOPBACK.encode() + echo.to_bytes(4, "big")
    # lengths as brokers write them; the server is an echo, so the answer is the request
    frames = [len(body).to_bytes(4, "big") + body for body in (b"1" * 70_000, b"head" + told + b"127.0.")]
    with Proxy(echo, kafka=True) as proxy, connect(proxy.port) as connection:
        back = said(connection, b"".join(frames))

    ours = LOOPBACK.encode() + proxy.port.to_bytes(4, "big")
    assert back == b"".join(frames).replace(told, ours)


def test_a_proxy_whose_server_is_away_drops_its_clients_and_ends() -> None:
    with socket.create_server((LOOPBACK, 0)) as gone:
        port = gone.getsockname()[1]
    with Proxy(port) as proxy, connect(proxy.port) as connection:
        back = said(connection, b"anybody?")

    assert back == b""
    with pytest.raises(ConnectionRefusedError):
        connect(proxy.port)


def test_a_full_disk_takes_no_byte_until_it_is_over(tmp_path: Path) -> None:
    with mounted(tmp_path) as disks:
        if not disks.tmpfs:
            pytest.skip("no tmpfs may be mounted here")
        file = tmp_path / "kafka" / "file"
        file.touch()
        with disks.full("kafka", []), pytest.raises(OSError, match="No space left") as refused:
            file.write_bytes(b"x")
        written = file.write_bytes(b"x" * 4096)

    assert (refused.value.errno, written) == (errno.ENOSPC, 4096)
    assert not os.path.ismount(tmp_path / "kafka")


@pytest.mark.parametrize(
    ("fault", "code"), [(Disks.out_of_inodes, errno.ENOSPC), (Disks.read_only, errno.EROFS)]
)
def test_a_disk_that_takes_no_file_takes_some_again_when_that_is_over(
    tmp_path: Path, fault: Callable[[Disks, str], AbstractContextManager[None]], code: int
) -> None:
    with mounted(tmp_path) as disks:
        if not disks.tmpfs:
            pytest.skip("no tmpfs may be mounted here")
        file = tmp_path / "kafka" / "file"
        with fault(disks, "kafka"), pytest.raises(OSError, match=r"No space left|Read-only") as refused:
            file.touch()
        file.touch()

    assert refused.value.errno == code
    assert not os.path.ismount(tmp_path / "kafka")


WRITER = f"""
import sys
for line in sys.stdin:
    try:
        with open(line.strip(), "wb", buffering=0) as file:
            file.seek({LIMIT_BYTES})
            file.write(b"x")
        print("written", flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


def test_without_a_tmpfs_a_limit_on_files_does_the_same(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None

        def write() -> str:
            writer.stdin.write(f"{tmp_path / 'file'}\n")
            writer.stdin.flush()
            return writer.stdout.readline().strip()

        told = [write()]
        with Disks(tmp_path, tmpfs=False).full("kafka", [psutil.Process(writer.pid)]):
            told.append(write())
        told.append(write())
        writer.stdin.close()

    assert told == ["written", str(errno.EFBIG), "written"]


def test_a_limit_on_who_has_died_meanwhile_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as gone:
        process = psutil.Process(gone.pid)
        with limited([process]):
            gone.kill()
            gone.wait()

    assert not process.is_running()


def test_the_clock_is_set_forth_and_back(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    clock = Clock(file)

    with clock.jumped(-30):
        during = file.read_text()

    assert (during, file.read_text()) == ("-30s\n", "+0s\n")


def test_a_library_that_does_not_move_the_clock_is_told_and_not_used(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "any-machine" / "faketime" / LIBRARY
    library.parent.mkdir(parents=True)
    library.touch()  # the loader says that it is none, and goes on without it

    clock = Clock(tmp_path / "clock", root=tmp_path)

    assert clock.impossible.startswith(f"{library} does not move the clock")
    assert dict(clock.environment()) == {}


def test_without_the_library_the_clock_cannot_jump(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock", root=tmp_path)

    assert (clock.impossible, dict(clock.environment())) == ("libfaketime is not installed", {})
