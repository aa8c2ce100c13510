"""Rows of this host's launches, read by a process of the runtime: its crash or hang harms no scheduler.

The process is told a run directory and finds the sinks there; of the environment it has the variables that
their SecretRefs name. What it writes is in `runtime.readrows`.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
from daggers.v1 import events_pb2, host_pb2, spec_pb2
from google.protobuf.message import DecodeError

from chassis.errors import ApiError
from chassis.logging import logger
from daggerspec.rundir import SPEC
from scheduler.command import secrets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MODULE: Final = "runtime.readrows"
ERROR: Final = b"E"
SNAPSHOT: Final = b"S"
_PASSED: Final = ("HOME", "USER")
_RETRY: Final = timedelta(seconds=5)
_LONGEST_FRAME: Final = 4 * 1024 * 1024


class RowReader:
    """Starts readers; at most `most` reads at once. How many watch is for `rowwatch` to say."""

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
        self._free = most
        self._most, self._patience_s, self._module = most, patience_s, module

    async def frames(
        self, run_dir: Path, request: host_pb2.ReadHostRowsRequest
    ) -> AsyncGenerator[bytes, None]:
        """What a reader of a launch finds: serialised ReadRowsResponses. Raises: ApiError."""
        if not self._free:
            raise busy(self._most, "reads of rows")
        self._free -= 1
        try:
            async with self._reader(run_dir, f"--sink={request.request.sink}") as process:
                await _say(process, request.SerializeToString())
                while (frame := await self._frame(process)) is not None:
                    yield frame[1]
        finally:
            self._free += 1

    async def watched(
        self, run_dir: Path, sink: str, asked: asyncio.Event
    ) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """What a reader finds that looks again and again: kinds, and serialised WatchRowsResponses.

        Whenever `asked` is set, it is cleared, and the next look gives all rows. Raises: ApiError.
        """
        async with self._reader(run_dir, f"--sink={sink}", "--watch") as process:
            asking = asyncio.create_task(_ask(process, asked))
            try:
                while (frame := await self._frame(process)) is not None:
                    yield frame
                raise await _died(process)
            finally:
                asking.cancel()

    @asynccontextmanager
    async def _reader(self, run_dir: Path, *arguments: str) -> AsyncIterator[Process]:
        process = await self._started(run_dir, *arguments)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _started(self, run_dir: Path, *arguments: str) -> Process:
        """A reader of a launch, which may be tidied away while it is asked for. Raises: ApiError."""
        try:
            return await asyncio.create_subprocess_exec(
                *(self._python, "-P", "-m", self._module, "--run-dir", str(run_dir), *arguments),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,  # what libraries say there may quote a secret
                cwd=run_dir,
                env=self._environment(run_dir),
                limit=_LONGEST_FRAME,
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            if (run_dir / SPEC).exists():
                raise  # it is the interpreter that is not there
            text = "the launch whose rows were asked for was removed from its host: ask again"
            code = grpc.StatusCode.UNAVAILABLE
            raise ApiError(
                code, "LAUNCH_GONE", text, {"generation": run_dir.name}, retry_after=_RETRY
            ) from error
        except DecodeError as error:
            text = f"the file {SPEC} of its newest launch is damaged: restart the dagger"
            code = grpc.StatusCode.FAILED_PRECONDITION
            raise ApiError(code, "LAUNCH_UNREADABLE", text, {"generation": run_dir.name}) from error

    async def _frame(self, process: Process) -> tuple[bytes, bytes] | None:
        """The next frame; None at the end. Raises: ApiError, also for one that is an error."""
        out = process.stdout
        assert out is not None
        try:
            async with asyncio.timeout(self._patience_s):
                head = await out.readexactly(5)
                kind, message = head[:1], await out.readexactly(int.from_bytes(head[1:], "big"))
        except TimeoutError as error:
            text = f"the rows could not be read in {self._patience_s:g} s: ask for later ones, or for fewer"
            metadata = {"limit_seconds": f"{self._patience_s:g}"}
            raise ApiError(grpc.StatusCode.UNAVAILABLE, "ROWS_TIMED_OUT", text, metadata) from error
        except asyncio.IncompleteReadError as error:
            if await process.wait() == 0 and not error.partial:
                return None
            raise await _died(process) from error
        if kind == ERROR:
            raise refusal(events_pb2.DaggerError.FromString(message))
        return kind, message

    def _environment(self, run_dir: Path) -> dict[str, str]:
        job = spec_pb2.JobSpec.FromString((run_dir / SPEC).read_bytes())
        named = [value for sink in job.sinks for value in secrets(sink, self._inherited).items()]
        passed = {name: self._inherited[name] for name in _PASSED if name in self._inherited}
        return {**passed, **dict(named), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONSAFEPATH": "1"}


async def _say(process: Process, text: bytes) -> None:
    """Write all that a process is told."""
    assert process.stdin is not None
    with suppress(ConnectionError):  # it has ended, and its end says why
        process.stdin.write(text)
        await process.stdin.drain()
        process.stdin.close()


async def _ask(process: Process, asked: asyncio.Event) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError):  # it has ended, and its end says why
        while True:
            await asked.wait()
            asked.clear()
            process.stdin.write(b"?")
            await process.stdin.drain()


async def _died(process: Process) -> ApiError:
    code = await process.wait()
    logger().warning("scheduler.row_reader_died", code=code)
    text = "the process that reads the rows has died on their host: it was killed, or memory is short"
    return ApiError(grpc.StatusCode.UNAVAILABLE, "ROW_READER_DIED", text, {"exit_code": str(code)})


def busy(limit: int, what: str) -> ApiError:
    """No more of this is begun now."""
    text = f"this host takes {limit} {what} at once, and no more: try again in a moment"
    metadata = {"limit": str(limit), "what": what}
    return ApiError(grpc.StatusCode.RESOURCE_EXHAUSTED, "HOST_BUSY", text, metadata, retry_after=_RETRY)


def refusal(error: events_pb2.DaggerError) -> ApiError:
    """A reader's error as a caller sees it: what may pass is UNAVAILABLE."""
    code = grpc.StatusCode.UNAVAILABLE if error.retryable else grpc.StatusCode.FAILED_PRECONDITION
    metadata = {"domain": events_pb2.ErrorDomain.Name(error.domain)}
    return ApiError(code, error.reason, error.detail.rstrip("."), metadata)
