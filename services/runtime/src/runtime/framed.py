"""Answer the scheduler of this host from a process of its own, in frames on stdout.

A frame is one byte for its kind, four of length, and a serialised message. The byte `E` is a
DaggerError: why there are no more.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from daggers.v1 import events_pb2
from google.protobuf.message import Message

from chassis.crash import describe
from runtime.errors import UNEXPECTED, explain, user

ERROR: Final = b"E"
STEP: Final = b"S"
_MEMORY: Final = 4 * 1024**3  # of address space, of which libraries reserve much and use little
Job = TypeVar("Job", bound=Message)


def answer(noun: str, read: Callable[[BinaryIO], None]) -> int:
    """Let `read` write its frames, and behind them the error if it fails; return 0.

    `noun` is the plural of what is read, for a sentence: rows.
    """
    # What a library prints must not come between the frames.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _stand_back()
    try:
        with suppress(BrokenPipeError):  # nobody reads any more
            read(out)
    except Exception as error:  # noqa: BLE001 - the last place before the process ends
        with suppress(BrokenPipeError):
            frame(out, ERROR, _explain(noun, error).SerializeToString())
    return 0


def answer_job(noun: str, kind: type[Job], find: Callable[[Job], Iterable[Message]]) -> int:
    """Read a job from stdin, and write the messages that `find` yields for it, a frame each; return 0.

    Host operations of the scheduler are such processes: `scheduler.host.operation_table` names their modules.
    `noun` is the plural of what is found, for the sentence of an error.
    """

    def read(out: BinaryIO) -> None:
        for message in find(kind.FromString(sys.stdin.buffer.read())):
            frame(out, STEP, message.SerializeToString())

    return answer(noun, read)


def frame(out: BinaryIO, kind: bytes, message: bytes) -> None:
    """Write one frame. Raises: BrokenPipeError."""
    out.write(kind + len(message).to_bytes(4, "big") + message)
    out.flush()


def _explain(noun: str, error: Exception) -> events_pb2.DaggerError:
    if isinstance(error, MemoryError):
        detail = f"The {noun} do not fit into memory: ask for fewer, or for later ones."
        return user(f"TOO_MANY_{noun.upper()}", detail).error
    explained = explain(error)
    if explained.reason == UNEXPECTED:
        explained.detail = f"The {noun} could not be read ({describe(error)})."
    return explained


def _stand_back() -> None:
    """Take less of everything than what runs beside us, and be the first to go when memory is short."""
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
