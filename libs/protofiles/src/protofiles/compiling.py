"""Compiles what was brought, in a process of its own: it may be anybody's, and made to do harm."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf import descriptor_pb2 as dp

from protofiles.bounds import CPU_S, MEMORY, OUT_OF_MEMORY
from protofiles.bundle import Brought
from protofiles.problems import Problem

PATIENCE_S: Final = 60.0
"""For an answer: far more than its processor time takes on a busy machine."""
_COSTLY: Final = frozenset(
    {OUT_OF_MEMORY, -signal.SIGXCPU, -signal.SIGKILL, -signal.SIGABRT, -signal.SIGXFSZ}
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What came of it."""

    files: dp.FileDescriptorSet
    """All files and what they import, in dependency order, with comments. Empty where there are problems."""
    problems: tuple[Problem, ...] = ()
    missing: tuple[str, ...] = ()
    """What is imported and was not brought along, as it is written."""
    left_out: tuple[str, ...] = ()
    """Files of archives that are no Protobuf sources."""


def compile_files(files: Sequence[Brought], roots: Sequence[str] = ()) -> Compiled:
    """One descriptor set of all that was brought; or everything that is wrong with it, by file and line.

    files: .proto sources, zips of them, serialised descriptor sets. roots: folders that imports are written
    from, as far as they are known. Takes about a second, a minute at most.

    Raises: CompilerFailed when the process ended for no reason of theirs.
    """
    head = json.dumps({"files": [(file.path, len(file.content)) for file in files], "roots": list(roots)})
    with tempfile.TemporaryDirectory(prefix="protofiles-") as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "protofiles.compiler_process"],
                input=b"".join((head.encode(), b"\n", *(file.content for file in files))),
                capture_output=True,
                check=False,
                timeout=PATIENCE_S,
                cwd=folder,
                env={"LC_ALL": "C.UTF-8", "TZ": "UTC"},  # nothing that its caller knows
            )
        except subprocess.TimeoutExpired:
            return _too_costly()
    if done.returncode in _COSTLY:
        return _too_costly()
    if done.returncode != 0:
        raise CompilerFailed(done.returncode, done.stderr[-1_000:].decode(errors="replace"))
    line, _, descriptors = done.stdout.partition(b"\n")
    answer = json.loads(line)
    return Compiled(
        dp.FileDescriptorSet.FromString(descriptors),
        tuple(Problem(*problem) for problem in answer["problems"]),
        tuple(answer["missing"]),
        tuple(answer["left_out"]),
    )


class CompilerFailed(Exception):  # noqa: N818 - reads as what has happened
    """The process of the compiler ended by itself."""

    def __init__(self, code: int, output: str) -> None:
        super().__init__(f"the process that compiles Protobuf files ended with {code}: {output}")
        self.code = code


def _too_costly() -> Compiled:
    text = (
        f"take more to compile than {CPU_S} seconds of a processor or {MEMORY // 1024 // 1024} MiB:"
        " bring fewer or smaller files"
    )
    return Compiled(dp.FileDescriptorSet(), (Problem("", 0, 0, "TOO_COSTLY", text),))
