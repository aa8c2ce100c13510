"""One check of a query, as a value: the question, and its answer in any process.

`python -m api_gateway.validate.query_check_process CPU_SECONDS` answers questions one by one, in frames (four
bytes of length, then a pickle), from stdin to stdout: `query_check_pool` starts it. A check that exceeds its
CPU or memory ends this process, and nothing else.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import BinaryIO, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from daggersql import CheckResult, RuleText, Table, check
from daggersql.functions.codepoints import by_category

HEAD: Final = 4
OUT_OF_MEMORY: Final = 3
"""Exit code of a process whose check exceeded its memory."""
_MEMORY: Final = 1024 * 1024 * 1024
_NICE: Final = 5
_NOTHING: Final = timedelta()


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that the query may read."""

    table: str
    message: str
    time_field: str
    files: bytes
    """A serialised FileDescriptorSet with the message and all its imports."""
    records: bool = False
    """True where the query may read whole records."""


@dataclass(frozen=True, slots=True)
class Question:
    """All inputs of a check."""

    sql: str
    streams: tuple[Stream, ...]
    references: tuple[str, ...]
    early: bool
    points: bool
    accepted: bool
    expressions: tuple[tuple[int, int], ...] = ()
    unknown: tuple[str, ...] = ()
    """Further tables, whose columns are unknown."""
    conditions: tuple[str, ...] = ()
    """Conditions of sinks for their rows."""
    allowed_lateness: timedelta = _NOTHING
    rules: tuple[RuleText, ...] = ()
    """Alert rules on its rows."""


def answer(question: Question) -> CheckResult:
    """Check the query of a question."""
    return check(
        question.sql,
        [
            Table(stream.table, _message(stream.files, stream.message), stream.time_field, stream.records)
            for stream in question.streams
        ],
        question.references,
        expressions=question.expressions,
        early=question.early,
        allowed_lateness=question.allowed_lateness,
        points=question.points,
        accepted=question.accepted,
        unknown=question.unknown,
        conditions=question.conditions,
        rules=question.rules,
    )


@lru_cache(maxsize=64)
def _message(files: bytes, name: str) -> Descriptor:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(files).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName(name)


def main(argv: list[str]) -> int:
    """Answer questions until stdin ends; return the exit code."""
    cpu_s = float(argv[0])
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of libraries must not reach the replies
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # a terminal interrupts the gateway, which drains, and closes stdin
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    by_category()
    answer(Question("SELECT 1", (), (), early=False, points=False, accepted=False))
    _write(replies, b"")  # ready
    while question := _read(requests):
        try:
            # SIGPROF has no handler: it kills the process, also within a library
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            reply = pickle.dumps(answer(pickle.loads(question)))  # noqa: S301 - from the gateway that started us
            signal.setitimer(signal.ITIMER_PROF, 0)
        except MemoryError:
            return OUT_OF_MEMORY
        _write(replies, reply)
    return 0


def _read(file: BinaryIO) -> bytes:
    """Read the next frame; return no bytes at the end."""
    head = file.read(HEAD)
    return file.read(int.from_bytes(head, "big")) if len(head) == HEAD else b""


def _write(file: BinaryIO, frame: bytes) -> None:
    file.write(len(frame).to_bytes(HEAD, "big") + frame)
    file.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
