"""Compiles uploaded files in a process of its own: they come from anybody, and may be made to do harm."""

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
from protofiles.bundle import UploadedFile
from protofiles.problems import Problem

PATIENCE_S: Final = 60.0
"""Seconds to wait for the process: far more than CPU_S takes on a busy machine."""
_COSTLY: Final = frozenset(
    {OUT_OF_MEMORY, -signal.SIGXCPU, -signal.SIGKILL, -signal.SIGABRT, -signal.SIGXFSZ}
)


@dataclass(frozen=True, slots=True)
class Compilation:
    """Result of a compilation: a descriptor set, or problems."""

    files: dp.FileDescriptorSet
    """All sources and their imports, in dependency order, with comments. Empty where there are problems."""
    problems: tuple[Problem, ...] = ()
    missing: tuple[str, ...] = ()
    """Names of imports that no uploaded source matches."""
    left_out: tuple[str, ...] = ()
    """Paths of archive entries that are no Protobuf sources; at most 50."""


def compile_files(files: Sequence[UploadedFile], roots: Sequence[str] = ()) -> Compilation:
    """Compile files to one descriptor set, or return all their problems by file and line.

    files: .proto sources, zips of them, serialised descriptor sets. roots: folders that imports are relative
    to, as far as known; the others are inferred. Blocks for about a second, PATIENCE_S at most.

    Raises: CompilerError when the process failed for a reason other than the files.
    """
    head = json.dumps({"files": [(file.path, len(file.content)) for file in files], "roots": list(roots)})
    with tempfile.TemporaryDirectory(prefix="protofiles-") as folder:
        try:
            finished = subprocess.run(
                [sys.executable, "-P", "-m", "protofiles.compiler_process"],
                input=b"".join((head.encode(), b"\n", *(file.content for file in files))),
                capture_output=True,
                check=False,
                timeout=PATIENCE_S,
                cwd=folder,
                env={"LC_ALL": "C.UTF-8", "TZ": "UTC"},  # no variable of the caller: it may be a secret
            )
        except subprocess.TimeoutExpired:
            return _refuse_as_too_costly()
    if finished.returncode in _COSTLY:
        return _refuse_as_too_costly()
    if finished.returncode != 0:
        raise CompilerError(finished.returncode, finished.stderr[-1_000:].decode(errors="replace"))
    line, _, descriptors = finished.stdout.partition(b"\n")
    answer = json.loads(line)
    return Compilation(
        dp.FileDescriptorSet.FromString(descriptors),
        tuple(Problem(*problem) for problem in answer["problems"]),
        tuple(answer["missing"]),
        tuple(answer["left_out"]),
    )


class CompilerError(Exception):
    """Unexpected end of the compiler's process, with its exit code and the end of its stderr."""

    def __init__(self, code: int, output: str) -> None:
        super().__init__(f"the process that compiles Protobuf files ended with {code}: {output}")
        self.code = code


def _refuse_as_too_costly() -> Compilation:
    text = (
        f"take more to compile than {CPU_S} seconds of a processor or {MEMORY // 1024 // 1024} MiB:"
        " bring fewer or smaller files"
    )
    return Compilation(dp.FileDescriptorSet(), (Problem("", 0, 0, "TOO_COSTLY", text),))
