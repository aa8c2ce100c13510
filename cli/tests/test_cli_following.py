"""What is followed goes on: over restarts of gateway and scheduler, to another host, until a delete.

Gateway and hosts speak TLS with each other here, and show each other a token.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from api_gateway.hosts.client import HostAccess
from api_gateway.quarantine.memory import MemoryQuarantine
from api_gateway.server import serving
from api_gateway.state.projection import Projection
from chassis.endpoint import Endpoint, endpoint
from chassis.tokenfile import first_token
from cli.__main__ import run
from devstack import ports
from eventlog import Draft
from eventlog.memory import MemoryLog
from scheduler.host.row_reader import RowReader
from scheduler.host.service import HostService
from scheduler.host.service import serving as serving_host

META = events_pb2.RequestMeta(actor="test")
DAGGERS = Path(sys.executable).with_name("daggers")
DEADLINE_S = 90
DRAIN_S = 5.0
FIRST, SECOND = "first", "second"
MACHINE = socket.gethostname()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The command's own words only."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key of this machine, which sign themselves."""
    folder = tmp_path_factory.mktemp("tls")
    pair = folder / "cert.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-out", str(pair[0]), "-keyout", str(pair[1]), "-days", "1", "-subj", "/CN=daggers"]
    command += ["-addext", f"subjectAltName=DNS:{MACHINE}"]
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)
    return pair


@dataclass
class World:
    """A log, hosts with their run directories, and a gateway that can be started again on its port."""

    folder: Path
    certificate: Path
    key: Path
    records: Any = field(default_factory=MemoryLog)
    count: int = 0
    running: asyncio.Task[int] | None = None
    port: int = field(default_factory=lambda: ports.choose(("gateway",), {})["gateway"])

    def __post_init__(self) -> None:
        self.tokens = self.folder / "tokens"
        self.tokens.write_text("gateway:0123456789abcdef0123456789abcdef\n")

    async def write(self, *messages: Message) -> int:
        """Append records; answers the sequence of the last."""
        for message in messages:
            self.count += 1
            draft = Draft(f"r{self.count}", "/t", "s", datetime.now(UTC), message)
            await self.records.append(draft)
        return self.count - 1

    async def launch(self, epoch: int) -> int:
        """A launch by the scheduler that claimed at `epoch`; answers its generation."""
        fact = events_pb2.FactMeta(epoch=epoch, name="orders")
        return await self.write(events_pb2.LaunchIntended(meta=fact, version=1))

    async def delete(self, epoch: int, generation: int) -> None:
        """The dagger goes."""
        fact = events_pb2.FactMeta(epoch=epoch, name="orders", generation=generation)
        await self.write(
            events_pb2.LaunchFailed(meta=fact),
            events_pb2.DeleteRequested(meta=META, name="orders"),
            events_pb2.Deleted(meta=fact),
        )

    def log(self, host: str, generation: int) -> Path:
        """The log of a launch that prints rows."""
        log = self.folder / host / "orders" / str(generation) / "driver.log"
        log.parent.mkdir(parents=True)
        sink = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink()))
        job = spec_pb2.JobSpec(dagger="orders", generation=generation, sinks=[sink])
        log.with_name("spec.pb").write_bytes(job.SerializeToString())
        log.write_text("")
        return log

    @asynccontextmanager
    async def host(self, name: str) -> AsyncIterator[None]:
        """A scheduler's service of a host, which says where it is."""
        service = HostService(self.folder / name, name, RowReader(sys.executable, {}))
        reached = endpoint("0.0.0.0:0", certificate=self.certificate, key=self.key, tokens=self.tokens)
        async with serving_host(service, reached) as port:
            said = events_pb2.HostServing(scheduler_id="s", host=name, address=f"{MACHINE}:{port}", tls=True)
            await self.write(said)
            yield

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[None]:
        """The gateway, on the same port each time."""

        async with serving(
            self.records,
            Projection(f"sqlite:///{self.folder / 'gateway.db'}"),
            MemoryQuarantine(),
            Endpoint(f"127.0.0.1:{self.port}"),
            alerts=MemoryLog(),
            source="/t",
            host_access=lambda: HostAccess(first_token(self.tokens), self.certificate.read_bytes()),
            drain_s=DRAIN_S,
        ):
            yield

    def begin(self, *words: str) -> asyncio.Task[int]:
        """A command under way; its exit code."""
        address = f"127.0.0.1:{self.port}"
        self.running = asyncio.create_task(asyncio.to_thread(run, [*words, "--gateway", address]))
        return self.running


@pytest.fixture
def world(tmp_path: Path, certificate: tuple[Path, Path]) -> World:
    return World(tmp_path, *certificate)


@pytest.fixture
def printed(world: World, capsys: pytest.CaptureFixture[str]) -> Callable[[str], Any]:
    """Waits for a text on stdout; gives all that came by then, and what came on stderr."""
    out, err = [""], [""]

    async def until(text: str) -> tuple[str, str]:
        end = time.monotonic() + DEADLINE_S
        while True:
            said = capsys.readouterr()
            out[0], err[0] = out[0] + said.out, err[0] + said.err
            if text in out[0]:
                return out[0], err[0]
            assert time.monotonic() < end, (text, out, err)
            assert world.running is None or not world.running.done(), (text, out, err)
            await asyncio.sleep(0.05)

    return until


def line(number: int) -> str:
    """What the driver prints, which is a row, too."""
    return f"row {json.dumps({'tag_city': 'x', 'n': number})}"


COMMANDS = {
    "logs": (("logs", "orders", "--follow"), line),
    "watch": (("watch", "orders"), lambda number: f"tag_city=x  n={number}"),
}


@pytest.mark.parametrize("command", ["logs", "watch"])
async def test_what_is_followed_goes_on_over_restarts_and_moves_until_the_dagger_is_deleted(
    world: World, printed: Callable[[str], Any], command: str
) -> None:
    words, shown = COMMANDS[command]
    epoch = await world.write(events_pb2.SchedulerStarted(scheduler_id="s", host=FIRST))
    spec = spec_pb2.DaggerSpec(cluster="c")
    await world.write(events_pb2.DaggerRequested(meta=META, name="orders", spec=spec))
    log = world.log(FIRST, await world.launch(epoch))
    drained: list[float] = []

    def driver_prints(number: int) -> None:
        with log.open("a") as file:
            file.write(f"{line(number)}\n")

    driver_prints(1)
    async with AsyncExitStack() as gateways, AsyncExitStack() as hosts:
        await hosts.enter_async_context(world.host(FIRST))
        await gateways.enter_async_context(world.gateway())
        running = world.begin(*words)
        await printed(shown(1))

        begun = time.monotonic()
        await hosts.aclose()  # the scheduler is restarted
        drained.append(time.monotonic() - begun)
        driver_prints(2)
        await hosts.enter_async_context(world.host(FIRST))
        await printed(shown(2))

        begun = time.monotonic()
        await gateways.aclose()  # and the gateway
        drained.append(time.monotonic() - begun)
        driver_prints(3)
        await gateways.enter_async_context(world.gateway())
        await printed(shown(3))

        driver_prints(4)
        log = world.log(FIRST, await world.launch(epoch))  # the dagger is launched again
        driver_prints(5)
        await printed(shown(5))

        await hosts.enter_async_context(world.host(SECOND))  # and by another host
        epoch = await world.write(events_pb2.SchedulerStarted(scheduler_id="t", host=SECOND))
        generation = await world.launch(epoch)
        log = world.log(SECOND, generation)
        driver_prints(6)
        await printed(shown(6))

        await world.delete(epoch, generation)
        code = await asyncio.wait_for(running, DEADLINE_S)
        out, err = await printed("")

    assert (code, out.splitlines()) == (0, [shown(number) for number in range(1, 7)])
    assert "orders was deleted" in err
    assert max(drained) < DRAIN_S


async def test_a_watched_list_is_drawn_again_when_a_phase_changes_until_it_is_interrupted(
    world: World,
) -> None:
    epoch = await world.write(events_pb2.SchedulerStarted(scheduler_id="s", host=FIRST))
    spec = spec_pb2.DaggerSpec(cluster="c")
    await world.write(events_pb2.DaggerRequested(meta=META, name="orders", spec=spec))
    shown: list[str] = []
    async with asyncio.timeout(DEADLINE_S), world.gateway():
        watching = await asyncio.create_subprocess_exec(
            *(DAGGERS, "list", "--watch", "--gateway", f"127.0.0.1:{world.port}"),
            stdout=subprocess.PIPE,
        )
        try:
            assert watching.stdout is not None
            async for printed in watching.stdout:
                name, phase, *_ = (*printed.decode().split(), "", "")
                if name != "orders" or [phase] == shown[-1:]:
                    continue  # a title, or a time that has gone on
                shown.append(phase)
                if phase == "PENDING":
                    await world.launch(epoch)
                else:
                    watching.send_signal(signal.SIGINT)
            code = await watching.wait()
        finally:
            if watching.returncode is None:
                watching.kill()

    assert (shown, code) == (["PENDING", "STARTING"], 130)
