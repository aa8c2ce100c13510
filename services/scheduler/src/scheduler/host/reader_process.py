"""A process of the runtime that reads something for a caller: its crash or hang harms no scheduler.

What it is asked goes to its stdin, what it finds comes in frames, as `runtime.framed` writes them. Of the
environment it has the variables that the SecretRefs of its job name, and no others.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import grpc
from daggers.v1 import events_pb2
from google.protobuf.message import Message

from chassis.egress import proxies
from chassis.errors import ApiError
from chassis.logging import logger
from eventlog.follower import Follower
from fleet import Applied
from scheduler.drivers.command import secrets
from scheduler.drivers.runas import User

ERROR: Final = b"E"
RETRY: Final = timedelta(seconds=5)
BEHIND_S: Final = 5.0
"""How long a host may take to read what its caller has read."""
_PASSED: Final = ("HOME", "USER")
_LONGEST_FRAME: Final = 4 * 1024 * 1024


def environment(inherited: Mapping[str, str], *of: Message) -> dict[str, str]:
    """What a process is given that reads with the secrets that these messages name."""
    named = [value for message in of for value in secrets(message, inherited).items()]
    passed = {name: inherited[name] for name in _PASSED if name in inherited}
    return {
        **passed,
        **proxies.passed(inherited),
        **dict(named),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONSAFEPATH": "1",
    }


@asynccontextmanager
async def running(
    command: tuple[str, ...], folder: Path, environment: Mapping[str, str], user: User | None = None
) -> AsyncIterator[Process]:
    """A process inside the block, killed behind it: a user's, or the scheduler's own.

    Raises: FileNotFoundError, NotADirectoryError.
    """
    if user is not None:
        command = (*user.command(), *command)
        environment = {**environment, **user.environment()}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,  # what libraries say there may quote a secret
        cwd=folder,
        env=environment,
        limit=_LONGEST_FRAME,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def say(process: Process, text: bytes) -> None:
    """Write all that a process is told."""
    assert process.stdin is not None
    with suppress(ConnectionError):  # it has ended, and its end says why
        process.stdin.write(text)
        await process.stdin.drain()
        process.stdin.close()


async def frame(process: Process, what: str, patience_s: float) -> tuple[bytes, bytes] | None:
    """The next frame of a process that reads `what`; None at the end.

    Raises: ApiError, also for a frame that is an error.
    """
    out = process.stdout
    assert out is not None
    try:
        async with asyncio.timeout(patience_s):
            head = await out.readexactly(5)
            kind, message = head[:1], await out.readexactly(int.from_bytes(head[1:], "big"))
    except TimeoutError as error:
        text = f"the {what} could not be read in {patience_s:g} s: ask for later ones, or for fewer"
        metadata = {"limit_seconds": f"{patience_s:g}"}
        reason = f"{what.upper()}_TIMED_OUT"
        raise ApiError(grpc.StatusCode.UNAVAILABLE, reason, text, metadata) from error
    except asyncio.IncompleteReadError as error:
        if await process.wait() == 0 and not error.partial:
            return None
        raise await died(process, what) from error
    if kind == ERROR:
        raise refusal(events_pb2.DaggerError.FromString(message))
    return kind, message


async def died(process: Process, what: str) -> ApiError:
    """What a caller is told of a process that has ended before its end."""
    code = await process.wait()
    logger().warning("scheduler.reader_died", code=code, what=what)
    text = f"the process that reads the {what} has died on their host: it was killed, or memory is short"
    reason = f"{what.removesuffix('s').upper()}_READER_DIED"
    return ApiError(grpc.StatusCode.UNAVAILABLE, reason, text, {"exit_code": str(code)})


async def reached(follower: Follower[Applied], sequence: int) -> None:
    """Wait until a host has read the control topic as far as its caller. Raises: ApiError."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BEHIND_S):
            await follower.reached(sequence)
    if follower.sequence < sequence:
        text = f"its scheduler has read the control topic to {follower.sequence} so far: ask again"
        metadata = {"asked": str(sequence), "reached": str(follower.sequence)}
        raise ApiError(grpc.StatusCode.UNAVAILABLE, "HOST_BEHIND", text, metadata, retry_after=RETRY)


class Places:
    """Room for so many readers at once; `what` they read, for a refusal: reads of rows."""

    def __init__(self, most: int, what: str) -> None:
        self._free, self._most, self._what = most, most, what

    @contextmanager
    def one(self) -> Iterator[None]:
        """Have one of them for a while. Raises: ApiError when there is none."""
        if not self._free:
            raise busy(self._most, self._what)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


def busy(limit: int, what: str) -> ApiError:
    """No more of this is begun now."""
    text = f"this host takes {limit} {what} at once, and no more: try again in a moment"
    metadata = {"limit": str(limit), "what": what}
    return ApiError(grpc.StatusCode.RESOURCE_EXHAUSTED, "HOST_BUSY", text, metadata, retry_after=RETRY)


def refusal(error: events_pb2.DaggerError) -> ApiError:
    """A reader's error as a caller sees it: what may pass is UNAVAILABLE."""
    code = grpc.StatusCode.UNAVAILABLE if error.retryable else grpc.StatusCode.FAILED_PRECONDITION
    metadata = {"domain": events_pb2.ErrorDomain.Name(error.domain)}
    return ApiError(code, error.reason, error.detail.rstrip("."), metadata)
