"""Rows of this host's launches, read by a process of the runtime: its crash or hang harms no scheduler.

The process is told a run directory and finds the sinks there; of the environment it has the variables that
their SecretRefs name. What it writes is in `runtime.readrows`.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
from daggers.v1 import events_pb2, spec_pb2

from chassis.errors import ApiError
from chassis.logging import logger
from daggerspec.rundir import SPEC
from scheduler.command import secrets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MODULE: Final = "runtime.readrows"
_PASSED: Final = ("HOME", "USER")
_RETRY: Final = timedelta(seconds=5)
_LONGEST_FRAME: Final = 4 * 1024 * 1024


class RowReader:
    """Starts readers, a few at once."""

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

    async def frames(self, run_dir: Path, arguments: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """What a reader of a launch finds: serialised ReadRowsResponses. Raises: ApiError."""
        async with self._reader(run_dir, arguments) as process:
            while True:
                kind, message = await self._frame(process)
                if not kind:
                    return
                if kind == b"E":
                    raise refusal(events_pb2.DaggerError.FromString(message))
                yield message

    @asynccontextmanager
    async def _reader(self, run_dir: Path, arguments: Sequence[str]) -> AsyncIterator[Process]:
        if not self._free:
            text = f"{self._most} readers of rows are at work on this host: try again in a moment"
            raise ApiError(grpc.StatusCode.RESOURCE_EXHAUSTED, "HOST_BUSY", text, retry_after=_RETRY)
        self._free -= 1
        try:
            process = await asyncio.create_subprocess_exec(
                *(self._python, "-P", "-m", self._module, "--run-dir", str(run_dir), *arguments),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,  # what libraries say there may quote a secret
                cwd=run_dir,
                env=await asyncio.to_thread(self._environment, run_dir),
                limit=_LONGEST_FRAME,
            )
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        finally:
            self._free += 1

    async def _frame(self, process: Process) -> tuple[bytes, bytes]:
        """The next frame; nothing at the end."""
        out = process.stdout
        assert out is not None
        try:
            async with asyncio.timeout(self._patience_s):
                head = await out.readexactly(5)
                return head[:1], await out.readexactly(int.from_bytes(head[1:], "big"))
        except TimeoutError as error:
            text = f"the rows could not be read in {self._patience_s:g} s"
            raise ApiError(grpc.StatusCode.UNAVAILABLE, "ROWS_TIMED_OUT", text) from error
        except asyncio.IncompleteReadError as error:
            code = await process.wait()
            if code == 0 and not error.partial:
                return b"", b""
            logger().warning("scheduler.row_reader_died", code=code)
            text = "the process that reads the rows has died on their host: it was killed, or memory is short"
            raise ApiError(grpc.StatusCode.UNAVAILABLE, "ROW_READER_DIED", text) from error

    def _environment(self, run_dir: Path) -> dict[str, str]:
        job = spec_pb2.JobSpec.FromString((run_dir / SPEC).read_bytes())
        named = [value for sink in job.sinks for value in secrets(sink, self._inherited).items()]
        passed = {name: self._inherited[name] for name in _PASSED if name in self._inherited}
        return {**passed, **dict(named), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONSAFEPATH": "1"}


def refusal(error: events_pb2.DaggerError) -> ApiError:
    """A reader's error as a caller sees it: what may pass is UNAVAILABLE."""
    code = grpc.StatusCode.UNAVAILABLE if error.retryable else grpc.StatusCode.FAILED_PRECONDITION
    return ApiError(code, error.reason, error.detail.rstrip("."))
