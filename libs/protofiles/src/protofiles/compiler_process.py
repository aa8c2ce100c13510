"""One compilation: `python -m protofiles.compiler_process`, from stdin to stdout, in an empty working folder.

The question is a line of JSON, then the files one after the other; the answer a line of JSON, then the
descriptor set. What takes more memory or processor time than it may ends this process, and nothing else.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import astuple
from importlib import resources
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2 as dp
from google.protobuf.message import DecodeError
from grpc_tools import protoc

from protofiles.bounds import CPU_S, MAX_WRITTEN, MEMORY, OUT_OF_MEMORY
from protofiles.bundle import Brought, Bundle, unpack
from protofiles.complaints import Attempt, problems_of
from protofiles.descriptors import merged, read_set, size_problem
from protofiles.imports import scan
from protofiles.placing import Placed, place
from protofiles.problems import Problem, ordered

MOST_LEFT_OUT: Final = 50
"""Files of archives that are told as left out."""
_NICE: Final = 5
_NO_MEMORY: Final = "alloc failed"
"""Protobuf has no error of its own for it."""
_SOURCES: Final = Path("sources")
_SET: Final = Path("set.pb")
_OUTPUT: Final = Path("output.txt")


def main() -> int:
    """Answer one question; answers the exit code."""
    os.nice(_NICE)
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, MAX_WRITTEN),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    answered = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        question = json.loads(sys.stdin.buffer.readline())
        files = [Brought(path, sys.stdin.buffer.read(size)) for path, size in question["files"]]
        head, descriptors = _answer(files, question["roots"])
    except MemoryError:
        return OUT_OF_MEMORY
    except DecodeError as error:
        if _NO_MEMORY in str(error):
            return OUT_OF_MEMORY
        raise
    answered.write(json.dumps(head).encode() + b"\n" + descriptors)
    answered.flush()
    return 0


def _answer(files: Sequence[Brought], roots: Sequence[str]) -> tuple[dict[str, Any], bytes]:
    bundle = unpack(files)
    problems = list(bundle.problems)
    sets = []
    for name, content in bundle.sets.items():
        judged = read_set(name, content)
        if isinstance(judged, Problem):
            problems.append(judged)
        else:
            sets.append(judged)
    missing: set[str] = set()
    if bundle.sources and not _is_full(bundle):
        placed, compiled = _compiled(bundle, roots)
        missing = placed.missing
        if isinstance(compiled, list):
            problems += compiled
        else:
            sets.insert(0, compiled)
    result = merged(sets)
    if (too_large := size_problem(result)) is not None:
        problems.append(too_large)
    head = {
        "problems": [astuple(problem) for problem in ordered(problems)],
        "missing": sorted(missing),
        "left_out": bundle.left_out[:MOST_LEFT_OUT],
    }
    return head, b"" if problems else result.SerializeToString()


def _is_full(bundle: Bundle) -> bool:
    """Whether there is more than is compiled."""
    return any(problem.reason in ("TOO_MANY_FILES", "TOO_LARGE") for problem in bundle.problems)


def _compiled(bundle: Bundle, roots: Sequence[str]) -> tuple[Placed, dp.FileDescriptorSet | list[Problem]]:
    """The sources of a bundle, compiled; or everything that is wrong with them."""
    built_in = Path(str(resources.files("grpc_tools") / "_proto"))
    known = {path.relative_to(built_in).as_posix() for path in built_in.rglob("*.proto")}
    sources = {path: text for path, text in bundle.sources.items() if path not in known}
    placed = place({path: scan(text) for path, text in sources.items()}, roots, known)
    paths = {name: path for path, name in placed.names.items()}
    for name, path in list(paths.items()):
        try:
            (_SOURCES / name).parent.mkdir(parents=True, exist_ok=True)
            (_SOURCES / name).write_bytes(sources[path].encode())
        except OSError:  # a file where another needs a folder
            text = f"cannot lie beside the others as {name}: one of them is called as its folder"
            placed.problems.append(Problem(path, 0, 0, "INVALID_PATH", text))
            del paths[name]
    _SOURCES.mkdir(exist_ok=True)
    together, output = _protoc(sorted(paths), built_in, with_imports=True)
    if together is not None and not placed.problems:
        return placed, together
    attempts = []
    for name in sorted(paths):
        compiled, written = _protoc([name], built_in, with_imports=False)
        attempts.append(Attempt(name, written, compiled.file[0] if compiled is not None else None))
    unsound = {placed.names[problem.file] for problem in placed.problems if problem.file in placed.names}
    needed = {
        placed.names[path]: [placed.names[target] for target in targets]
        for path, targets in placed.needed.items()
    }
    return placed, [*placed.problems, *problems_of(attempts, paths, needed, unsound, output)]


def _protoc(
    names: Sequence[str], built_in: Path, *, with_imports: bool
) -> tuple[dp.FileDescriptorSet | None, str]:
    """What protoc makes of some sources, None where it refuses; and what it writes."""
    words = [
        "protoc",
        f"-I{_SOURCES}",
        f"-I{built_in}",
        *(["--include_imports"] if with_imports else []),
        "--include_source_info",
        f"--descriptor_set_out={_SET}",
        *(str(_SOURCES / name) for name in names),  # a name by itself may begin with a dash
    ]
    stderr = os.dup(2)
    with _OUTPUT.open("wb") as stream:
        os.dup2(stream.fileno(), 2)
        try:
            code = protoc.main(words)
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    written = _OUTPUT.read_text(errors="replace").replace(f"{_SOURCES}/", "")
    return (dp.FileDescriptorSet.FromString(_SET.read_bytes()) if code == 0 else None), written


if __name__ == "__main__":
    sys.exit(main())
