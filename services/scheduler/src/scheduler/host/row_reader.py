"""Rows of this host's launches, read by a process of the runtime.

The process is told a run directory and finds the sinks there, which whose directory it is may have written:
it is that user's, too. What it writes is in `runtime.readrows`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import grpc
from daggers.v1 import host_pb2, spec_pb2
from google.protobuf.message import DecodeError

from chassis.errors import ApiError
from chassis.files import read_plain
from daggerspec.rundir import SPEC
from scheduler.drivers import runas
from scheduler.host import reader_process
from scheduler.host.reader_process import RETRY, HelperProcess, Places, build_death_error, environment

MODULE: Final = "runtime.readrows"
SNAPSHOT: Final = b"S"
ARCHIVE: Final = "runtime.describearchive"
_ROWS: Final = "rows"
_ARCHIVE: Final = "archive"


class RowReader:
    """Starts readers; at most `most` reads at once. How many watch is for `row_watch` to say."""

    def __init__(
        self,
        python: str,
        inherited: Mapping[str, str],
        *,
        most: int = 8,
        patience_s: float = 90.0,
        module: str = MODULE,
    ) -> None:
        """`inherited` is the environment that secrets are found in; a frame may take `patience_s`."""
        self._python, self._inherited = python, inherited
        self._places = Places(most, "reads of rows")
        self._patience_s, self._module = patience_s, module

    async def frames(
        self, run_dir: Path, request: host_pb2.ReadHostRowsRequest
    ) -> AsyncGenerator[bytes, None]:
        """Yield what a reader of a launch finds: serialised ReadRowsResponses. Raises: ApiError."""
        with self._places.one():
            async with self._reader(run_dir, f"--sink={request.request.sink}") as process:
                await reader_process.say(process, request.SerializeToString())
                while (frame := await self._frame(process)) is not None:
                    yield frame[1]

    async def archive(
        self, run_dir: Path, request: host_pb2.DescribeHostArchiveRequest
    ) -> AsyncGenerator[bytes, None]:
        """Yield what a reader finds of a table's files: a serialised DescribeArchiveResponse. Raises:
        ApiError.
        """
        with self._places.one():
            argument = f"--sink={request.request.sink}"
            async with self._reader(run_dir, argument, module=ARCHIVE) as process:
                while (frame := await reader_process.frame(process, _ARCHIVE, self._patience_s)) is not None:
                    yield frame[1]

    async def watch_frames(
        self, run_dir: Path, sink: str, wanted: asyncio.Event
    ) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Yield the frames of a reader that looks again and again: kinds, and serialised WatchRowsResponses.

        Whenever `wanted` is set, it is cleared, and the next look gives all rows. Raises: ApiError.
        """
        async with self._reader(run_dir, f"--sink={sink}", "--watch") as process:
            asker = asyncio.create_task(_ask(process, wanted))
            try:
                while (frame := await self._frame(process)) is not None:
                    yield frame
                raise await build_death_error(process, _ROWS)
            finally:
                asker.cancel()

    @asynccontextmanager
    async def _reader(self, run_dir: Path, *arguments: str, module: str = "") -> AsyncIterator[HelperProcess]:
        """Start a reader of a launch, which may be removed meanwhile. Raises: ApiError."""
        line = reader_process.command(
            self._python, module or self._module, "--run-dir", str(run_dir), *arguments
        )
        async with AsyncExitStack() as stack:
            try:
                job = spec_pb2.JobSpec.FromString(read_plain(run_dir / SPEC))
                given = environment(self._inherited, *job.sinks)
                user = runas.owner(run_dir)
                running = reader_process.running(line, run_dir, given, user)
                process = await stack.enter_async_context(running)
            except (FileNotFoundError, NotADirectoryError) as error:
                if (run_dir / SPEC).exists():
                    raise  # it is the interpreter that is not there
                text = "the launch whose rows were asked for was removed from its host: ask again"
                code = grpc.StatusCode.UNAVAILABLE
                raise ApiError(
                    code, "LAUNCH_GONE", text, {"generation": run_dir.name}, retry_after=RETRY
                ) from error
            except DecodeError as error:
                text = f"the file {SPEC} of its newest launch is damaged: restart the dagger"
                code = grpc.StatusCode.FAILED_PRECONDITION
                raise ApiError(code, "LAUNCH_UNREADABLE", text, {"generation": run_dir.name}) from error
            yield process

    async def _frame(self, process: HelperProcess) -> tuple[bytes, bytes] | None:
        return await reader_process.frame(process, _ROWS, self._patience_s)


async def _ask(process: HelperProcess, wanted: asyncio.Event) -> None:
    with suppress(ConnectionError):  # it has ended, and its end says why
        while True:
            await wanted.wait()
            wanted.clear()
            process.stdin.write(b"?")
            await process.stdin.drain()
