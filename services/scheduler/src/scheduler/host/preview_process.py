"""A process of the runtime that previews, one after another: its crash or hang harms no driver.

It is the leader of a session of its own and works in a folder of its own. It ends when its scheduler has.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final

import grpc
from daggers.v1 import events_pb2, gateway_pb2, host_pb2

from chassis import pressure, processes
from chassis.errors import ApiError
from chassis.logging import logger
from daggerspec import rundir
from daggerspec.limits import PREVIEW_S
from scheduler.host.reader_process import ERROR, RETRY, refusal

FREE_S: Final = 1.0
"""Seconds for which a preview that nobody waits for may keep its host busy, before that is killed."""
START_S: Final = 120.0
_TIDY_S: Final = 10.0
"""Seconds for which one that has come to its end may."""
_CONNECT_S: Final = 0.05
_PATIENCE_S: Final = PREVIEW_S + 15
LOG: Final = "host.log"
LESS: Final = "ask again for less, or for a simpler query"
WHYS: Final = ("idle", "replaced", "room", "disk", "hung", "died", "closed")
"""Reasons for which such a process ends."""


class PreviewHost:
    """One such process."""

    def __init__(self, folder: Path, process: Process, ended: Callable[[str], None]) -> None:
        self.folder, self._process, self._ended = folder, process, ended
        self.why = ""
        """Of `WHYS`, once it was killed."""
        self._why: tuple[str, str] | None = None
        self._freeing: asyncio.Task[None] | None = None
        self.previews = 0
        """Number of previews that it was sent."""

    @classmethod
    async def start(
        cls,
        python: str,
        folder: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        ended: Callable[[str], None],
    ) -> PreviewHost:
        """Start one in an existing folder, with its temporary one; `ended` gets once why it is killed.
        Raises: OSError.
        """
        words = (python, "-P", "-m", "scheduler.host.preview_limits", "--", *command)
        with (folder / LOG).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        return cls(folder, process, ended)

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return not self.why and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Process id of the leader of its session."""
        return self._process.pid

    async def steps(
        self, job: host_pb2.PreviewJob
    ) -> AsyncGenerator[gateway_pb2.PreviewDaggerResponse, None]:
        """Yield the steps of a preview, to its end. After an early end the host is `free`, or dead, within
        `FREE_S`.

        Raises: ApiError.
        """
        self.previews += 1
        reader, writer = await self._connect()
        over = False
        try:
            message = job.SerializeToString()
            writer.write(len(message).to_bytes(4, "big") + message)
            await writer.drain()
            async with aclosing(self._read(reader)) as steps:
                async for step in steps:
                    over = step.HasField("done")
                    yield step
        except ApiError:
            over = True
            raise
        finally:
            self._freeing = asyncio.create_task(self._free(reader, writer, _TIDY_S if over else FREE_S))

    async def _read(
        self, reader: asyncio.StreamReader
    ) -> AsyncGenerator[gateway_pb2.PreviewDaggerResponse, None]:
        step = gateway_pb2.PreviewDaggerResponse()
        while not step.HasField("done"):
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    head = await reader.readexactly(5)
                    message = await reader.readexactly(int.from_bytes(head[1:], "big"))
            except TimeoutError as error:
                self.kill("hung")
                why = f"it said nothing for {_PATIENCE_S:g} s"
                raise _build_error(*slow(why, LESS, pressure.overload())) from error
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise self._build_death_error() from error
            if head[:1] == ERROR:
                raise refusal(events_pb2.DaggerError.FromString(message))
            step = gateway_pb2.PreviewDaggerResponse.FromString(message)
            yield step

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to its socket, once it listens. Raises: ApiError."""
        folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)  # the path of a socket may have 107 bytes
        try:
            async with asyncio.timeout(START_S):
                while self.alive:
                    with suppress(FileNotFoundError, ConnectionError):
                        return await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{rundir.SOCKET}")
                    await asyncio.sleep(_CONNECT_S)
        except TimeoutError as error:
            self.kill("hung")
            why = f"it did not start in {START_S:g} s"
            raise _build_error(*slow(why, "ask again", pressure.overload())) from error
        finally:
            os.close(folder)
        raise self._build_death_error()

    async def free(self) -> None:
        """Wait until it is free, or dead."""
        if self._freeing is not None:
            await asyncio.shield(self._freeing)

    async def _free(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience_s: float
    ) -> None:
        """Hang up, and have the host free or dead."""
        try:
            with suppress(OSError):
                writer.write_eof()
            async with asyncio.timeout(patience_s):
                while await reader.read(65536):
                    pass
        except (TimeoutError, ConnectionError):
            self.kill("hung")
        finally:
            writer.close()

    def give_up(self, why: str, reason: str, text: str) -> None:
        """Kill it in the middle of a preview, whose caller is told this."""
        self._why = self._why or (reason, text)
        self.kill(why)

    def kill(self, why: str) -> None:
        """SIGKILL all of it; the leader last: while it lives, what it forks is known as its own. `why`: of
        `WHYS`; the first counts.
        """
        if not self.why:
            logger().info("scheduler.preview_killed", pid=self.pid, why=why)
            self._ended(why)
        self.why = self.why or why
        members = processes.session(self.pid)
        for member in sorted(members, key=lambda member: member.pid == self.pid):
            with suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGKILL)

    def _build_death_error(self) -> ApiError:
        self.kill("died")
        code = self._process.returncode
        logger().warning("scheduler.preview_host_died", code=code)
        if self._why is not None:
            return _build_error(*self._why)
        return _build_error(
            "PREVIEW_HOST_DIED", f"it was killed, or its memory is too small for this query; {LESS}"
        )


def slow(why: str, advice: str, overload: str) -> tuple[str, str]:
    """Return reason and text for a process that took too long. overload: that its host has too much to do, in
    a clause; then no smaller preview would help.
    """
    if overload:
        return pressure.HOST_OVERLOADED, f"{why}, and {overload}; ask again when it has less to do"
    return "PREVIEW_TIMED_OUT", f"{why}; {advice}"


def _build_error(reason: str, why: str) -> ApiError:
    text = f"the process that previews has ended: {why}"
    return ApiError(grpc.StatusCode.UNAVAILABLE, reason, text, {}, retry_after=RETRY)
