"""`daggers logs` from another machine: a gateway, and the host of a scheduler behind it."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import structlog
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from api_gateway.hosts.client import HostAccess
from api_gateway.quarantine.memory import MemoryQuarantine
from api_gateway.server import serving
from api_gateway.state.projection import Projection
from chassis.endpoint import Endpoint
from chassis.lines import line
from chassis.tokenfile import first_token, read_tokens
from cli.__main__ import run
from eventlog import Draft
from eventlog.memory import MemoryLog
from scheduler.host.row_reader import RowReader
from scheduler.host.service import HostService
from scheduler.host.service import serving as serving_host

META = events_pb2.RequestMeta(actor="test")
FACT = events_pb2.FactMeta(epoch=0, name="orders")
HISTORY = (
    events_pb2.SchedulerStarted(scheduler_id="s", host="afar"),
    events_pb2.DaggerRequested(meta=META, name="orders", spec=spec_pb2.DaggerSpec(cluster="c")),
    events_pb2.DaggerRequested(meta=META, name="waiting", spec=spec_pb2.DaggerSpec(cluster="c")),
    events_pb2.LaunchIntended(meta=FACT, version=1),
)
SAID = "starting\nTraceback (most recent call last):\n  File x\nValueError: no\nrunning\n"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The command's own words only."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    yield
    structlog.reset_defaults()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A driver's log on the host, of the launch that the history intends."""
    file = tmp_path / "host" / "runs" / "orders" / "3" / "driver.log"
    file.parent.mkdir(parents=True)
    file.write_text(SAID)
    return file


@asynccontextmanager
async def stack(
    tmp_path: Path, *later: Message, token: bool = True
) -> AsyncIterator[Callable[..., list[str]]]:
    """Gives what makes a command line for the gateway.

    later: what happened after the history. token: whether the gateway has the host's token.
    """
    tokens = tmp_path / "tokens"
    tokens.write_text("gateway:0123456789abcdef0123456789abcdef\n")
    service = HostService(tmp_path / "host" / "runs", "afar", RowReader(sys.executable, {}))
    records = MemoryLog()

    async with serving_host(service, Endpoint("127.0.0.1:0", None, partial(read_tokens, tokens))) as port:
        said = events_pb2.HostServing(scheduler_id="s", host="afar", address=f"127.0.0.1:{port}")
        for number, message in enumerate((*HISTORY, *later, said)):
            await records.append(Draft(f"r{number}", "/t", "s", datetime.now(UTC), message))
        async with serving(
            records,
            Projection(f"sqlite:///{tmp_path / uuid.uuid4().hex}.db"),
            MemoryQuarantine(),
            Endpoint("127.0.0.1:0"),
            alerts=MemoryLog(),
            source="/t",
            host_access=lambda: HostAccess(first_token(tokens) if token else "", here="afar"),
            drain_s=2,
        ) as gateway:
            yield lambda *words: [*words, "--gateway", f"127.0.0.1:{gateway.port}"]


async def test_a_log_is_read_where_it_is(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with stack(tmp_path) as words:
        code = await asyncio.to_thread(run, words("logs", "orders", "-o", "json"))
        document = json.loads(capsys.readouterr().out)
        whole = await asyncio.to_thread(run, words("logs", "orders", "--traces", "--lines", "3"))
        text = capsys.readouterr().out

    assert (code, whole) == (0, 0)
    assert document == {
        "name": "orders",
        "log": str(log),
        "warnings": [],
        "lines": ["starting", "ValueError: no", "running"],
    }
    assert text.splitlines() == ["  File x", "ValueError: no", "running"]


async def test_what_was_printed_before_a_restart_is_read_by_previous(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = log.parents[1] / "2" / "driver.log"
    before.parent.mkdir()
    before.write_text("the reason\n")

    async with stack(tmp_path) as words:
        code = await asyncio.to_thread(run, words("logs", "orders", "--previous"))
        previous = capsys.readouterr().out
        missing = await asyncio.to_thread(run, words("logs", "orders", "--generation", "9"))
        said = capsys.readouterr().err

    assert (code, previous, missing) == (0, "the reason\n", 1)
    assert "generations with a log are 2, 3" in said


async def test_why_a_driver_ends_again_and_again_is_said_before_what_it_printed(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason="SINK_MISSING", detail="There is no bucket."
    )
    ended = events_pb2.Exited(meta={"name": "orders", "generation": 3}, code=69, error=error)
    retried = events_pb2.RelaunchScheduled(meta={"name": "orders", "generation": 3}, attempt=1)

    async with stack(tmp_path, ended, retried) as words:
        code = await asyncio.to_thread(run, words("logs", "orders"))
        said = capsys.readouterr()
        await asyncio.to_thread(run, words("logs", "orders", "-o", "json"))
        document = json.loads(capsys.readouterr().out)

    assert code == 0
    assert said.err == "EXTERNAL SINK_MISSING: its driver has ended once: There is no bucket.\n"
    assert said.out.splitlines()[0] == "starting"
    assert [each["code"] for each in document["warnings"]] == ["SINK_MISSING"]


async def test_the_log_of_a_deleted_dagger_is_read_until_it_is_gone(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = (
        events_pb2.DeleteRequested(meta=META, name="orders"),
        events_pb2.Exited(meta={"name": "orders", "generation": 3}),
        events_pb2.Deleted(meta={"name": "orders", "generation": 3}),
    )

    async with stack(tmp_path, *gone) as words:
        code = await asyncio.to_thread(run, words("logs", "orders"))
        read = capsys.readouterr().out
        follows = await asyncio.to_thread(run, words("logs", "orders", "--follow"))
        capsys.readouterr()
        shutil.rmtree(log.parent)
        removed = await asyncio.to_thread(run, words("logs", "orders", "-o", "json"))
        said = json.loads(capsys.readouterr().out)

    assert (code, read.splitlines()) == (0, ["starting", "ValueError: no", "running"])
    assert follows == 1
    assert (removed, said["error"]["reason"]) == (1, "NO_LOG")


def write(log: Path, lines: list[str]) -> None:
    """Make these all of a log."""
    log.write_text("".join(f"{each}\n" for each in lines))


async def test_what_was_printed_lately_is_read_by_since(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime.now(UTC)
    write(log, [line(now - timedelta(hours=hours), "INFO", "x", str(hours)) for hours in (9, 5, 1)])

    async with stack(tmp_path) as words:
        code = await asyncio.to_thread(run, words("logs", "orders", "--since", "6h"))
        lately = capsys.readouterr().out.splitlines()
        instant = (now - timedelta(hours=2)).isoformat()
        await asyncio.to_thread(run, words("logs", "orders", "--since", instant))
        last = capsys.readouterr().out.splitlines()
        misused = await asyncio.to_thread(run, words("logs", "orders", "--since", "yesterday"))
        said = capsys.readouterr().err

    assert (code, [each[-1] for each in lately], [each[-1] for each in last]) == (0, ["5", "1"], ["1"])
    assert (misused, "--since yesterday: it must be a duration" in said) == (2, True)


async def test_a_dagger_without_a_log_and_a_gateway_without_the_token_are_refused(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with stack(tmp_path) as words:
        waits = await asyncio.to_thread(run, words("logs", "waiting", "-o", "json"))
        waiting = json.loads(capsys.readouterr().out)
    async with stack(tmp_path, token=False) as words:
        refuses = await asyncio.to_thread(run, words("logs", "orders", "-o", "json"))
        refused = json.loads(capsys.readouterr().out)

    assert (waits, waiting["error"]["reason"]) == (1, "NO_LOG")
    assert (refuses, refused["error"]["reason"]) == (1, "HOST_REFUSED")


@pytest.fixture
def rows(log: Path) -> None:
    """Rows that the launch has printed."""
    sink = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink()))
    job = spec_pb2.JobSpec(dagger="orders", generation=3, sinks=[sink])
    log.with_name("spec.pb").write_bytes(job.SerializeToString())
    log.write_text('row {"tag_city": "x", "n": 1}\nrow {"tag_city": "x", "n": 2}\n')


@pytest.mark.usefixtures("rows")
async def test_rows_are_read_and_watched_where_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with stack(tmp_path) as words:
        code = await asyncio.to_thread(run, words("rows", "orders", "-o", "json"))
        found = json.loads(capsys.readouterr().out)
        watched = await asyncio.to_thread(run, words("watch", "orders", "--for", "0"))
        text = capsys.readouterr().out
        none = await asyncio.to_thread(run, words("rows", "waiting", "-o", "json"))
        empty = json.loads(capsys.readouterr().out)

    assert (code, watched, none) == (0, 0, 0)
    assert [(row["tags"], row["fields"]) for row in found] == [({"tag_city": "x"}, {"n": n}) for n in (2, 1)]
    assert text.splitlines() == ["tag_city=x  n=1", "tag_city=x  n=2"]
    assert empty == []
