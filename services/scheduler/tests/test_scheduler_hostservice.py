"""HostService over a real channel: who may call, what is answered, and what is not there."""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from daggers.v1 import events_pb2, gateway_pb2, host_pb2, host_pb2_grpc, spec_pb2

from chassis import lines
from chassis.endpoint import Endpoint
from chassis.errors import ApiError, from_rpc_error
from chassis.tokenfile import first_token, read_tokens
from daggerspec import rundir
from scheduler.host.row_reader import RowReader
from scheduler.host.service import DRAIN_S, READING, HostService, serving
from scheduler.settings import SchedulerSettings

DEADLINE_S = 60
CANARY = "canary-7f3a91c2"
TOKEN = "gateway:0123456789abcdef0123456789abcdef\nold:00000000000000000000000000000000\n"


@asynccontextmanager
async def host(
    runs: Path, rows: RowReader | None = None, *, most_watches: int = 8, **reached: Any
) -> AsyncIterator[host_pb2_grpc.HostServiceStub]:
    reader = rows or RowReader(sys.executable, {"TOKEN": CANARY})
    service = HostService(runs, "here", reader, most_watches=most_watches)
    async with (
        serving(service, Endpoint("127.0.0.1:0", **reached)) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield host_pb2_grpc.HostServiceStub(channel)


def asking(**fields: Any) -> host_pb2.ReadHostLogRequest:
    return host_pb2.ReadHostLogRequest(request=gateway_pb2.ReadLogRequest(**fields), create_sequence=1)


def written(runs: Path, text: str) -> Path:
    log = runs / "orders" / "7" / "driver.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
    return log


def launched(runs: Path, *sinks: spec_pb2.ResolvedSink, generation: int = 7) -> Path:
    """The run directory of a launch with these sinks."""
    job = spec_pb2.JobSpec(dagger="orders", generation=generation, sinks=sinks)
    folder = runs / "orders" / str(generation)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.pb").write_bytes(job.SerializeToString())
    return folder


LOG = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink()))


def rows_of(**fields: Any) -> host_pb2.ReadHostRowsRequest:
    return host_pb2.ReadHostRowsRequest(request=gateway_pb2.ReadRowsRequest(name="orders", **fields))


async def refused(call: Any) -> ApiError:
    with pytest.raises(grpc.RpcError) as caught:
        async for _ in call:
            pass
    return from_rpc_error(caught.value)


async def over(call: Any) -> ApiError:
    """Why a call ends, of which something was read."""
    try:
        while True:
            await call.read()
    except grpc.RpcError as error:
        return from_rpc_error(error)


async def test_the_last_lines_come_with_where_they_are_from(tmp_path: Path) -> None:
    log = written(tmp_path, "one\ntwo\nTraceback (most recent call last):\n  x\nthree\n")
    async with host(tmp_path) as stub:
        steps = [step async for step in stub.ReadHostLog(asking(name="orders", lines=2), timeout=DEADLINE_S)]

    assert (steps[0].host, steps[0].path) == ("here", str(log))
    assert [line for step in steps for line in step.lines] == ["two", "three"]


async def test_lines_since_an_instant_are_all_told_unless_a_number_is_asked_for(tmp_path: Path) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    times = [noon + timedelta(seconds=number) for number in range(500)]
    written(tmp_path, "".join(lines.line(time, "INFO", "runtime", "said") + "\n" for time in times))

    async def told(**fields: Any) -> list[str]:
        asked = asking(name="orders", since=noon + timedelta(seconds=100), **fields)
        return [line async for step in stub.ReadHostLog(asked, timeout=DEADLINE_S) for line in step.lines]

    async with host(tmp_path) as stub:
        whole, last = await told(), await told(lines=3)
        never = asking(name="orders", since={"seconds": 2**40})
        error = await refused(stub.ReadHostLog(never, timeout=DEADLINE_S))

    assert (len(whole), whole[0][:24]) == (400, "2026-01-01T12:01:40.000Z")
    assert last == whole[-3:]
    assert [violation.field for violation in error.violations] == ["request.since"]


async def test_a_long_log_comes_in_steps_that_a_client_takes(tmp_path: Path) -> None:
    written(tmp_path, "".join(f"{number} {'x' * 1000}\n" for number in range(9_000)))
    async with host(tmp_path) as stub:
        asked = asking(name="orders", lines=100_000)
        steps = [step async for step in stub.ReadHostLog(asked, timeout=DEADLINE_S)]

    assert max(step.ByteSize() for step in steps) < 2 * 1024 * 1024
    assert [line.partition(" ")[0] for step in steps for line in step.lines] == [str(n) for n in range(9_000)]


async def test_a_log_is_followed_until_the_caller_has_enough(tmp_path: Path) -> None:
    log = written(tmp_path, "old\n")
    async with host(tmp_path) as stub, asyncio.timeout(DEADLINE_S):
        call: Any = stub.ReadHostLog(asking(name="orders", follow=True))
        lines: list[str] = []
        async for step in call:
            lines += step.lines
            if lines == ["old"]:
                with log.open("a") as more:
                    more.write("new\n")
            if lines == ["old", "new"]:
                call.cancel()
                break

    assert lines == ["old", "new"]


async def test_without_the_token_nothing_is_told(tmp_path: Path) -> None:
    written(tmp_path, "confidential\n")
    file = tmp_path / "tokens"
    file.write_text(TOKEN)
    known = (("authorization", f"Bearer {first_token(file)}"),)
    async with host(tmp_path, tokens=partial(read_tokens, file)) as stub:
        error = await refused(stub.ReadHostLog(asking(name="orders"), timeout=DEADLINE_S))
        told = [step async for step in stub.ReadHostLog(asking(name="orders"), metadata=known)]

    assert (error.code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_REQUIRED")
    assert [line for step in told for line in step.lines] == ["confidential"]


async def test_a_dagger_without_a_log_is_refused_and_so_is_a_path(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    written(tmp_path / "elsewhere", "confidential\n")
    async with host(runs) as stub:
        missing = await refused(stub.ReadHostLog(asking(name="orders"), timeout=DEADLINE_S))
        path = await refused(stub.ReadHostLog(asking(name="../elsewhere/orders"), timeout=DEADLINE_S))

    assert (missing.reason, missing.metadata) == (
        "NO_LOG",
        {"host": "here", "kind": "dagger", "name": "orders"},
    )
    assert path.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_rows_are_read_by_a_process_of_the_host(tmp_path: Path) -> None:
    launched(tmp_path, LOG)
    written(tmp_path, 'row {"n": 1}\nother\nrow {"n": 2}\n')
    async with host(tmp_path) as stub:
        steps = [step async for step in stub.ReadHostRows(rows_of(limit=1), timeout=DEADLINE_S)]
        none = [step async for step in stub.ReadHostRows(other(), timeout=DEADLINE_S)]

    assert [[row.fields[0].integer for row in step.rows] for step in steps] == [[2]]
    assert none == []


async def test_an_archive_is_described_by_a_process_of_the_host(tmp_path: Path) -> None:
    asked = spec_pb2.ParquetSink(location=str(tmp_path / "lake"), table="orders")
    launched(tmp_path / "runs", LOG, spec_pb2.ResolvedSink(sink=spec_pb2.Sink(parquet=asked)))
    hour = tmp_path / "lake" / "orders" / "dt=2026-01-01" / "hr=07"
    hour.mkdir(parents=True)
    (hour / "one.parquet").write_bytes(b"12345")

    def request(**fields: Any) -> host_pb2.DescribeHostArchiveRequest:
        return host_pb2.DescribeHostArchiveRequest(request=gateway_pb2.DescribeArchiveRequest(**fields))

    async with host(tmp_path / "runs") as stub:
        told = [step async for step in stub.DescribeHostArchive(request(name="orders"), timeout=DEADLINE_S)]
        none = [step async for step in stub.DescribeHostArchive(request(name="other"), timeout=DEADLINE_S)]
        wrong = await refused(stub.DescribeHostArchive(request(name="orders", sink="x"), timeout=DEADLINE_S))

    assert [(one.sink, one.path, one.files, one.bytes) for one in told] == [
        ("parquet", str(tmp_path / "lake" / "orders"), 1, 5)
    ]
    assert told[0].first_hour.ToDatetime(UTC) == datetime(2026, 1, 1, 7, tzinfo=UTC)
    assert (none, wrong.reason) == ([], "NO_ARCHIVE")


async def test_the_reader_is_told_which_rows_are_wanted(tmp_path: Path) -> None:
    launched(tmp_path, LOG)
    hour = '"window_timestamp": "2026-01-01T%s:00:00Z"'
    lines = [f'row {{"n": {n}, "city": "{n % 2}", {hour % (10 + n)}}}\n' for n in range(6)]
    written(tmp_path, "".join(lines))
    asked = rows_of(where=[{"column": "city", "comparison": 1, "value": "1"}], order_by="n")
    asked.request.since.FromJsonString("2026-01-01T12:00:00Z")
    unknown = rows_of(order_by="n")
    asked.columns.add(name="n", key="n", type="bigint")
    asked.columns.add(name="city", key="city", type="string")
    async with host(tmp_path) as stub:
        steps = [step async for step in stub.ReadHostRows(asked, timeout=DEADLINE_S)]
        error = await refused(stub.ReadHostRows(unknown, timeout=DEADLINE_S))

    assert [[row.fields[0].integer for row in step.rows] for step in steps] == [[3, 5]]
    assert (error.code, error.violations[0].field) == (grpc.StatusCode.INVALID_ARGUMENT, "request.order_by")


def other() -> host_pb2.ReadHostRowsRequest:
    return host_pb2.ReadHostRowsRequest(request=gateway_pb2.ReadRowsRequest(name="unlaunched"))


async def test_rows_are_watched_into_the_next_launch(tmp_path: Path) -> None:
    launched(tmp_path, LOG)
    written(tmp_path, 'row {"n": 1}\n')
    found: list[int] = []
    async with host(tmp_path) as stub, asyncio.timeout(DEADLINE_S):
        asked = host_pb2.WatchHostRowsRequest(request=gateway_pb2.WatchRowsRequest(name="orders"))
        call: Any = stub.WatchHostRows(asked)
        async for step in call:
            found += [row.fields[0].integer for row in step.rows]
            if found == [1] and not (tmp_path / "orders" / "9").exists():
                (launched(tmp_path, LOG, generation=9) / "driver.log").write_text('row {"n": 2}\n')
            if found == [1, 2]:
                call.cancel()
                break

    assert found == [1, 2]


async def test_no_answer_of_a_reader_has_the_secret_it_was_given(tmp_path: Path) -> None:
    token = spec_pb2.SecretRef(env="TOKEN")
    address = spec_pb2.InfluxAddress(url="http://127.0.0.1:9", bucket="b", token=token)
    away = spec_pb2.Sink(influx=spec_pb2.InfluxSink(address=address))
    unset = spec_pb2.InfluxAddress(url="http://127.0.0.1:9", bucket="b", token={"env": "UNSET"})
    launched(tmp_path, spec_pb2.ResolvedSink(sink=away))
    async with host(tmp_path) as stub:
        unreachable = await refused(stub.ReadHostRows(rows_of(), timeout=DEADLINE_S))
        missing = spec_pb2.Sink(influx=spec_pb2.InfluxSink(address=unset))
        launched(tmp_path, spec_pb2.ResolvedSink(sink=missing), generation=8)
        without = await refused(stub.ReadHostRows(rows_of(), timeout=DEADLINE_S))
        wrong = await refused(stub.ReadHostRows(rows_of(sink="kafka"), timeout=DEADLINE_S))

    assert (unreachable.code, unreachable.reason) == (grpc.StatusCode.UNAVAILABLE, "INFLUX_UNREACHABLE")
    assert (without.code, without.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SECRET_MISSING")
    assert (wrong.reason, wrong.message) == ("NO_SUCH_SINK", "orders has no sink kafka; it has influx")
    assert CANARY not in f"{unreachable!r}{without!r}{wrong!r}"


def is_reader(process: psutil.Process) -> bool:
    try:
        return "runtime.readrows" in process.cmdline()
    except psutil.Error:  # it is gone
        return False


async def test_a_reader_that_dies_hangs_or_is_one_too_many_harms_nobody(tmp_path: Path) -> None:
    launched(tmp_path, LOG)
    errors = []
    for reader in (
        RowReader(sys.executable, {}, module="no_such_module"),
        RowReader(sys.executable, {}, patience_s=0.01),
        RowReader(sys.executable, {}, most=0),
    ):
        async with host(tmp_path, reader) as stub:
            errors.append(await refused(stub.ReadHostRows(rows_of(), timeout=DEADLINE_S)))
    left = [child for child in psutil.Process().children() if is_reader(child)]

    assert [error.reason for error in errors] == ["ROW_READER_DIED", "ROWS_TIMED_OUT", "HOST_BUSY"]
    assert errors[0].metadata["crash"].startswith("ImportError")
    assert errors[0].metadata["crash"] in errors[0].message
    assert left == []


def watching(**fields: Any) -> host_pb2.WatchHostRowsRequest:
    return host_pb2.WatchHostRowsRequest(request=gateway_pb2.WatchRowsRequest(name="orders"), **fields)


async def numbers(call: Any, count: int) -> list[tuple[bool, int]]:
    """So many rows of a watch: whether they were there before it began, and the number in them."""
    found: list[tuple[bool, int]] = []
    while len(found) < count:
        step = await call.read()
        found += [(step.snapshot, row.fields[0].integer) for row in step.rows]
    return found


async def test_one_reader_serves_all_who_watch_the_same_rows(tmp_path: Path) -> None:
    launched(tmp_path, LOG)
    log = written(tmp_path, 'row {"n": 1}\n')
    async with host(tmp_path) as stub, asyncio.timeout(DEADLINE_S):
        calls: list[Any] = [stub.WatchHostRows(watching())]
        found = [await numbers(calls[0], 1)]
        calls += [stub.WatchHostRows(watching()) for _ in range(20)]
        found += [await numbers(call, 1) for call in calls[1:]]
        with log.open("a") as more:
            more.write('row {"n": 2}\n')
        news = [await numbers(call, 1) for call in calls]
        reading = [child for child in psutil.Process().children() if is_reader(child)]
        for call in calls:
            call.cancel()
        await asyncio.to_thread(psutil.wait_procs, reading, timeout=DEADLINE_S)
        left = [reader for reader in reading if reader.is_running()]

    assert found == [[(True, 1)]] * 21
    assert news == [[(False, 2)]] * 21
    assert (len(reading), left) == (1, [])


async def test_a_watch_too_many_is_refused_with_the_limit_and_reads_go_on(tmp_path: Path) -> None:
    launched(tmp_path, LOG).parent.rename(tmp_path / "others")
    launched(tmp_path, LOG)
    written(tmp_path, 'row {"n": 1}\n')
    others = host_pb2.WatchHostRowsRequest(request=gateway_pb2.WatchRowsRequest(name="others"))
    async with host(tmp_path, most_watches=1) as stub, asyncio.timeout(DEADLINE_S):
        call: Any = stub.WatchHostRows(watching())
        await numbers(call, 1)
        error = await refused(stub.WatchHostRows(others))
        read = [step async for step in stub.ReadHostRows(rows_of())]
        call.cancel()

    assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "HOST_BUSY")
    assert error.message == "this host takes 1 watches of rows at once, and no more: try again in a moment"
    assert len(read[0].rows) == 1


async def test_a_watch_ends_with_whatever_its_reader_ends_with(tmp_path: Path) -> None:
    launched(tmp_path, LOG)
    async with host(tmp_path, RowReader(str(tmp_path / "no-python"), {})) as stub:
        error = await refused(stub.WatchHostRows(watching(), timeout=DEADLINE_S))

    assert error.code is grpc.StatusCode.INTERNAL


async def test_another_host_is_meant_and_refused(tmp_path: Path) -> None:
    written(tmp_path, "confidential\n")
    asked = asking(name="orders")
    asked.host = "there"
    async with host(tmp_path) as stub:
        errors = [
            await refused(stub.ReadHostLog(asked, timeout=DEADLINE_S)),
            await refused(stub.WatchHostRows(watching(host="there"), timeout=DEADLINE_S)),
        ]
        asked.host = "here"
        told = [step async for step in stub.ReadHostLog(asked, timeout=DEADLINE_S)]

    assert [(error.code, error.reason, error.metadata) for error in errors] == [
        (grpc.StatusCode.FAILED_PRECONDITION, "WRONG_HOST", {"host": "here"})
    ] * 2
    assert told


async def test_a_drain_ends_what_is_followed_and_watched_within_its_deadline(tmp_path: Path) -> None:
    launched(tmp_path, LOG)
    written(tmp_path, 'row {"n": 1}\n')
    service = HostService(tmp_path, "here", RowReader(sys.executable, {}))
    async with AsyncExitStack() as serves, asyncio.timeout(DEADLINE_S):
        port = await serves.enter_async_context(serving(service, Endpoint("127.0.0.1:0")))
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        stub = host_pb2_grpc.HostServiceStub(channel)
        following: Any = stub.ReadHostLog(asking(name="orders", follow=True))
        watched: Any = stub.WatchHostRows(watching())
        await following.read()
        await numbers(watched, 1)
        ends = asyncio.gather(over(following), over(watched))
        begun = time.monotonic()
        await serves.aclose()
        took = time.monotonic() - begun
        errors = await ends
        await channel.close()

    assert [(error.code, error.reason) for error in errors] == [
        (grpc.StatusCode.UNAVAILABLE, "HOST_DRAINING")
    ] * 2
    assert took < DRAIN_S


async def test_a_log_goes_on_behind_a_position_and_into_the_launches_after_it(tmp_path: Path) -> None:
    log = written(tmp_path, "one\ntwo\n")
    async with host(tmp_path) as stub, asyncio.timeout(DEADLINE_S):
        call: Any = stub.ReadHostLog(asking(name="orders", follow=True))
        first = await call.read()
        call.cancel()
        log.write_text("one\ntwo\nthree\n")
        for generation in ("8", "9"):
            (tmp_path / "orders" / generation).mkdir()
            (tmp_path / "orders" / generation / "driver.log").write_text(f"of {generation}\n")
        again: Any = stub.ReadHostLog(asking(name="orders", follow=True, position=first.position))
        lines: list[str] = []
        paths: list[str] = []
        while len(lines) < 3:
            step = await again.read()
            lines += step.lines
            paths += [Path(step.path).parent.name] if step.path else []
        again.cancel()
        bad = await refused(stub.ReadHostLog(asking(name="orders", follow=True, position="nonsense")))

    assert first.lines == ["one", "two"]
    assert (lines, paths) == (["three", "of 8", "of 9"], ["7", "8", "9"])
    assert [violation.reason for violation in bad.violations] == ["INVALID_POSITION"]


async def test_a_launch_that_is_tidied_away_or_damaged_while_it_is_asked_for_is_told_with_its_reason(
    tmp_path: Path,
) -> None:
    reader = RowReader(sys.executable, {})
    gone = tmp_path / "orders" / "7"
    damaged = launched(tmp_path, LOG)
    (damaged / "spec.pb").write_bytes(b"\xff")
    async with host(tmp_path) as stub:
        unreadable = await refused(stub.ReadHostRows(rows_of(), timeout=DEADLINE_S))
        shutil.rmtree(gone)
        none = [step async for step in stub.ReadHostRows(rows_of(), timeout=DEADLINE_S)]
    with pytest.raises(ApiError) as raised:
        await anext(reader.frames(gone, rows_of()))

    assert (unreadable.code, unreadable.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "LAUNCH_UNREADABLE",
    )
    assert none == []
    assert (raised.value.code, raised.value.reason) == (grpc.StatusCode.UNAVAILABLE, "LAUNCH_GONE")


async def test_no_more_files_are_read_at_once_than_there_are_threads_for(tmp_path: Path) -> None:
    """Every caller that follows a log is served, however many there are."""
    log = written(tmp_path, "old\n")
    async with host(tmp_path) as stub, asyncio.timeout(DEADLINE_S):
        calls: list[Any] = [stub.ReadHostLog(asking(name="orders", follow=True)) for _ in range(5 * READING)]
        heads = await asyncio.gather(*(take(call, "old") for call in calls))
        with log.open("a") as more:
            more.write("new\n")
        tails = await asyncio.gather(*(take(call, "new") for call in calls))
        threads = [each for each in threading.enumerate() if each.name.startswith("host-files")]
        for call in calls:
            call.cancel()

    assert heads == tails == [True] * len(calls)
    assert 0 < len(threads) <= READING


async def take(call: Any, line: str) -> bool:
    """Read a followed log up to a line."""
    while line not in (await call.read()).lines:
        pass
    return True


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    told: dict[str, Any] = {"kafka_bootstrap_servers": "k:1", "state_dir": tmp_path}
    with pytest.raises(ValueError, match="is not loopback: set DAGGERS_HOST_TOKEN_FILE"):
        SchedulerSettings(**told, host_bind="0.0.0.0:50061")


@pytest.mark.parametrize(
    ("bind", "address", "reached"),
    [
        ("127.0.0.1:0", "", "127.0.0.1:7"),
        ("0.0.0.0:50061", "", "here:7"),
        ("0.0.0.0:50061", "10.0.0.1:99", "10.0.0.1:99"),
    ],
)
def test_gateways_are_told_an_address_that_they_reach(
    tmp_path: Path, bind: str, address: str, reached: str
) -> None:
    token = tmp_path / "tokens"
    token.write_text(TOKEN)
    told: dict[str, Any] = {"kafka_bootstrap_servers": "k:1", "state_dir": tmp_path, "host_token_file": token}

    settings = SchedulerSettings(**told, host_bind=bind, host_address=address)

    assert settings.reached_at(7, "here") == reached


async def test_an_earlier_launch_is_read_by_its_generation_or_as_the_one_before(tmp_path: Path) -> None:
    for generation in (3, 7, 9):
        log = launched(tmp_path, generation=generation) / "driver.log"
        log.write_text(f"said by {generation}\n")

    async with host(tmp_path) as stub:

        async def said(**fields: Any) -> list[str]:
            call = stub.ReadHostLog(asking(name="orders", **fields), timeout=DEADLINE_S)
            return [line async for step in call for line in step.lines]

        told = [await said(), await said(generation=3), await said(previous=True)]
        told.append(await said(generation=7, previous=True))
        first = await refused(stub.ReadHostLog(asking(name="orders", generation=3, previous=True)))
        none = await refused(stub.ReadHostLog(asking(name="orders", generation=5)))
        bad = await refused(stub.ReadHostLog(asking(name="orders", generation=-1)))

    assert told == [["said by 9"], ["said by 3"], ["said by 7"], ["said by 3"]]
    assert (first.reason, none.reason) == ("NO_LOG", "NO_LOG")
    assert none.message == (
        "there is no log of generation 5 of orders on its host here; generations with a log are 3, 7, 9"
    )
    assert [violation.field for violation in bad.violations] == ["request.generation"]


async def test_what_attempts_of_replays_printed_is_read_apart_from_drivers(
    tmp_path: Path,
) -> None:
    (launched(tmp_path) / "driver.log").write_text("said by a driver\n")
    for number, dagger in ((1, "orders"), (11, "orders"), (12, "trips"), (13, "orders")):
        folder = tmp_path / rundir.REPLAYS / str(number)
        folder.mkdir(parents=True)
        asked = events_pb2.QuarantineReplayRequested(name=dagger)
        (folder / rundir.REPLAY).write_bytes(asked.SerializeToString())
        (folder / rundir.LOG).write_text(f"replayed by {number}\n")

    async with host(tmp_path) as stub:

        async def said(**fields: Any) -> list[str]:
            call = stub.ReadHostLog(asking(name="orders", replay=True, **fields), timeout=DEADLINE_S)
            return [line async for step in call for line in step.lines]

        told = [await said(), await said(previous=True), await said(generation=11)]
        others = await refused(stub.ReadHostLog(asking(name="orders", replay=True, generation=12)))
        followed = stub.ReadHostLog(
            asking(name="orders", replay=True, follow=True, position="12-0-" + "0" * 16), timeout=DEADLINE_S
        )
        step = await followed.read()
        followed.cancel()

    assert told == [["replayed by 13"], ["replayed by 11"], ["replayed by 11"]]
    assert others.message == (
        "there is no log of attempt 12 of replays of orders on its host here; attempts with a log are 11, 13"
    )
    assert list(step.lines) == ["replayed by 13"]  # never what is another dagger's
