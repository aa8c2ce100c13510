"""One check of a query, as a value: what is asked, and what is answered wherever it is asked.

`python -m api_gateway.validate.query_check_process CPU_SECONDS` answers one question after the other, in
frames (four bytes of length, then a pickle), from stdin to stdout: `query_check_pool` starts it. A check that
takes more CPU or memory than it is given ends this process, and with it nothing else.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from daggersql import CheckResult, Table, check
from daggersql.functions.codepoints import by_category

HEAD: Final = 4
OUT_OF_MEMORY: Final = 3
"""Exit code of a process whose check took more memory than it may."""
_MEMORY: Final = 1024 * 1024 * 1024
_NICE: Final = 5


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that a query may read."""

    table: str
    message: str
    time_field: str
    files: bytes
    """A FileDescriptorSet with the message and all it needs."""
    records: bool = False
    """Whether the query may have its records as they are."""


@dataclass(frozen=True, slots=True)
class Question:
    """All that a check depends on."""

    sql: str
    streams: tuple[Stream, ...]
    references: tuple[str, ...]
    early: bool
    points: bool
    accepted: bool
    expressions: tuple[tuple[int, int], ...] = ()
    unknown: tuple[str, ...] = ()
    """Further tables, of which nothing is known."""
    conditions: tuple[str, ...] = ()
    """Which rows sinks want."""


def answer(question: Question) -> CheckResult:
    """What is found about a query."""
    return check(
        question.sql,
        [
            Table(stream.table, _message(stream.files, stream.message), stream.time_field, stream.records)
            for stream in question.streams
        ],
        question.references,
        expressions=question.expressions,
        early=question.early,
        points=question.points,
        accepted=question.accepted,
        unknown=question.unknown,
        conditions=question.conditions,
    )


@lru_cache(maxsize=64)
def _message(files: bytes, name: str) -> Descriptor:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(files).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName(name)


def main(argv: list[str]) -> int:
    """Answer questions until stdin ends; answers the exit code."""
    cpu_s = float(argv[0])
    asked, answered = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the gateway drains, and closes stdin
    by_category()
    answer(Question("SELECT 1", (), (), early=False, points=False, accepted=False))
    _write(answered, b"")  # ready
    while question := _read(asked):
        try:
            # Nobody handles SIGPROF: it ends the process, whatever holds its interpreter.
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            reply = pickle.dumps(answer(pickle.loads(question)))  # noqa: S301 - from the gateway that started us
            signal.setitimer(signal.ITIMER_PROF, 0)
        except MemoryError:
            return OUT_OF_MEMORY
        _write(answered, reply)
    return 0


def _read(file: BinaryIO) -> bytes:
    """The next frame; empty at the end."""
    head = file.read(HEAD)
    return file.read(int.from_bytes(head, "big")) if len(head) == HEAD else b""


def _write(file: BinaryIO, frame: bytes) -> None:
    file.write(len(frame).to_bytes(HEAD, "big") + frame)
    file.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
