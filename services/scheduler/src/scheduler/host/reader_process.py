"""A process of the runtime that reads something for a caller: its crash or hang harms no scheduler.

Its job goes to its stdin, its answers come in frames, as `runtime.framed` writes them. Of the environment it
has the variables that the SecretRefs of its job name, and no others.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import grpc
from daggers.v1 import events_pb2
from google.protobuf.message import Message

from chassis.crash import last_report
from chassis.egress import proxies
from chassis.errors import ApiError
from chassis.logging import logger
from eventlog.follower import Follower
from fleet import ApplyResult
from scheduler.drivers.command import secrets
from scheduler.drivers.runas import User

ERROR: Final = b"E"
RETRY: Final = timedelta(seconds=5)
BEHIND_S: Final = 5.0
"""Seconds that a host may take to read as far in the log as its caller has."""
_PASSED: Final = ("HOME", "USER")
_LONGEST_FRAME: Final = 4 * 1024 * 1024
_REPORT_S: Final = 1.0
"""Seconds that a crash is waited for once the process has ended: a child of it may hold its stderr open."""


@dataclass(frozen=True, slots=True)
class HelperProcess:
    """A process that reads its job from `stdin` and writes frames to `stdout`."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    wait: Callable[[], Awaitable[int]]
    """Waits for its end; the exit code."""
    crash: asyncio.Task[str]
    """Reads its stderr to the end; gives the exception by `chassis.crash.describe`, or nothing."""


def command(python: str, module: str, *words: str) -> tuple[str, ...]:
    """Return the command line of a module that is run as a helper: its crash tells no secret."""
    return (python, "-P", "-m", "chassis.crash", module, *words)


def environment(inherited: Mapping[str, str], *of: Message) -> dict[str, str]:
    """Build the environment of a process that reads with the secrets that these messages name."""
    named = [value for message in of for value in secrets(message, inherited).items()]
    passed = {name: inherited[name] for name in _PASSED if name in inherited}
    return {
        **passed,
        **proxies.proxy_variables(inherited),
        **dict(named),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONSAFEPATH": "1",
    }


@asynccontextmanager
async def running(
    command: tuple[str, ...], folder: Path, environment: Mapping[str, str], user: User | None = None
) -> AsyncIterator[HelperProcess]:
    """Start a process for the block, as a user or as the scheduler itself, and kill it behind the block.

    Raises: FileNotFoundError, NotADirectoryError.
    """
    if user is not None:
        command = (*user.command(), *command)
        environment = {**environment, **user.environment()}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,  # what libraries say there may quote a secret: all but a crash is dropped
        cwd=folder,
        env=environment,
        limit=_LONGEST_FRAME,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    crash = asyncio.create_task(last_report(process.stderr))
    try:
        yield HelperProcess(process.stdin, process.stdout, process.wait, crash)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        crash.cancel()


async def say(process: HelperProcess, text: bytes) -> None:
    """Write the job of a process, and close its stdin."""
    with suppress(ConnectionError):  # it has ended, and its end says why
        process.stdin.write(text)
        await process.stdin.drain()
        process.stdin.close()


async def frame(process: HelperProcess, noun: str, patience_s: float) -> tuple[bytes, bytes] | None:
    """Return the next frame of a process; None at the end. noun: for what it reads, in messages of failures.

    Raises: ApiError, also for a frame that is an error.
    """
    out = process.stdout
    try:
        async with asyncio.timeout(patience_s):
            head = await out.readexactly(5)
            kind, message = head[:1], await out.readexactly(int.from_bytes(head[1:], "big"))
    except TimeoutError as error:
        text = f"the {noun} could not be read in {patience_s:g} s: ask for later ones, or for fewer"
        metadata = {"limit_seconds": f"{patience_s:g}"}
        reason = f"{noun.upper()}_TIMED_OUT"
        raise ApiError(grpc.StatusCode.UNAVAILABLE, reason, text, metadata) from error
    except asyncio.IncompleteReadError as error:
        if await process.wait() == 0 and not error.partial:
            return None
        raise await build_death_error(process, noun) from error
    if kind == ERROR:
        raise refusal(events_pb2.DaggerError.FromString(message))
    return kind, message


async def build_death_error(process: HelperProcess, noun: str) -> ApiError:
    """Build the error of a process that has ended before its end, with where it crashed, if it did."""
    code = await process.wait()
    crash = ""
    with suppress(TimeoutError):
        crash = await asyncio.wait_for(asyncio.shield(process.crash), _REPORT_S)
    logger().warning("scheduler.reader_died", code=code, what=noun, crash=crash)
    why = f"it failed with {crash}" if crash else "it was killed, or memory is short"
    text = f"the process that reads the {noun} has died on their host: {why}"
    reason = f"{noun.removesuffix('s').upper()}_READER_DIED"
    metadata = {"exit_code": str(code), **({"crash": crash} if crash else {})}
    return ApiError(grpc.StatusCode.UNAVAILABLE, reason, text, metadata)


async def wait_until_read(follower: Follower[ApplyResult], sequence: int) -> None:
    """Wait until a host has read the control topic as far as its caller. Raises: ApiError."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BEHIND_S):
            await follower.wait_for(sequence)
    if follower.sequence < sequence:
        text = f"its scheduler has read the control topic to {follower.sequence} so far: ask again"
        metadata = {"asked": str(sequence), "reached": str(follower.sequence)}
        raise ApiError(grpc.StatusCode.UNAVAILABLE, "HOST_BEHIND", text, metadata, retry_after=RETRY)


class Places:
    """Room for so many readers at once; `noun` names them in a refusal: reads of rows."""

    def __init__(self, most: int, noun: str) -> None:
        self._free, self._most, self._noun = most, most, noun

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take one of them for the block. Raises: ApiError when there is none."""
        if not self._free:
            raise busy(self._most, self._noun)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


def busy(limit: int, noun: str) -> ApiError:
    """Build the refusal of one process more."""
    text = f"this host takes {limit} {noun} at once, and no more: try again in a moment"
    metadata = {"limit": str(limit), "what": noun}
    return ApiError(grpc.StatusCode.RESOURCE_EXHAUSTED, "HOST_BUSY", text, metadata, retry_after=RETRY)


def refusal(error: events_pb2.DaggerError) -> ApiError:
    """Build a caller's error of a reader's: what may pass is UNAVAILABLE."""
    code = grpc.StatusCode.UNAVAILABLE if error.retryable else grpc.StatusCode.FAILED_PRECONDITION
    metadata = {"domain": events_pb2.ErrorDomain.Name(error.domain)}
    return ApiError(code, error.reason, error.detail.rstrip("."), metadata)
