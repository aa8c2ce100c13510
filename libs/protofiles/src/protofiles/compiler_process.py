"""Compiles a bundle: `python -m protofiles.compiler_process`, stdin to stdout, in an empty working folder.

The request is a line of JSON, then the contents of the files; the answer a line of JSON, then the serialised
descriptor set. Files that take too much memory or processor time end this process, and no other.
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
from protofiles.bundle import Bundle, UploadedFile, unpack
from protofiles.complaints import CompileAttempt, collect_problems
from protofiles.descriptors import NO_MEMORY, find_size_problem, merge_sets, read_set
from protofiles.imports import scan_imports
from protofiles.placing import Placement, place_sources
from protofiles.problems import Problem, order_problems

MAX_LEFT_OUT: Final = 50
"""Paths of `left_out` in an answer."""
_NICE: Final = 5
_SOURCES: Final = Path("sources")
_SET: Final = Path("set.pb")
_OUTPUT: Final = Path("output.txt")


def main() -> int:
    """Compile the bundle on stdin; return the exit code.

    Raises: DecodeError and others, which end the process with a traceback.
    """
    os.nice(_NICE)
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, MAX_WRITTEN),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that what a library prints is no part of the answer
    try:
        request = json.loads(sys.stdin.buffer.readline())
        files = [UploadedFile(path, sys.stdin.buffer.read(size)) for path, size in request["files"]]
        head, descriptors = _compile(files, request["roots"])
    except MemoryError:
        return OUT_OF_MEMORY
    except DecodeError as error:
        if NO_MEMORY in str(error):
            return OUT_OF_MEMORY
        raise
    output.write(json.dumps(head).encode() + b"\n" + descriptors)
    output.flush()
    return 0


def _compile(files: Sequence[UploadedFile], roots: Sequence[str]) -> tuple[dict[str, Any], bytes]:
    """Return the answer's head and the serialised descriptor set, which is empty where there are problems."""
    bundle = unpack(files)
    problems = list(bundle.problems)
    sets = []
    for name, content in bundle.sets.items():
        parsed = read_set(name, content)
        if isinstance(parsed, Problem):
            problems.append(parsed)
        else:
            sets.append(parsed)
    missing: set[str] = set()
    if bundle.sources and not _exceeds_limits(bundle):
        placement, compiled = _compile_sources(bundle, roots)
        missing = placement.missing
        if isinstance(compiled, list):
            problems += compiled
        else:
            sets.insert(0, compiled)
    merged = merge_sets(sets)
    if (too_large := find_size_problem(merged)) is not None:
        problems.append(too_large)
    head = {
        "problems": [astuple(problem) for problem in order_problems(problems)],
        "missing": sorted(missing),
        "left_out": bundle.left_out[:MAX_LEFT_OUT],
    }
    return head, b"" if problems else merged.SerializeToString()


def _exceeds_limits(bundle: Bundle) -> bool:
    """Tell whether a bundle has too many or too large files to be compiled."""
    return any(problem.reason in ("TOO_MANY_FILES", "TOO_LARGE") for problem in bundle.problems)


def _compile_sources(
    bundle: Bundle, roots: Sequence[str]
) -> tuple[Placement, dp.FileDescriptorSet | list[Problem]]:
    """Compile the .proto sources of a bundle to a descriptor set, or collect all their problems."""
    includes = Path(str(resources.files("grpc_tools") / "_proto"))
    built_in = {path.relative_to(includes).as_posix() for path in includes.rglob("*.proto")}
    sources = {path: text for path, text in bundle.sources.items() if path not in built_in}
    placement = place_sources({path: scan_imports(text) for path, text in sources.items()}, roots, built_in)
    paths = {name: path for path, name in placement.names.items()}
    for name, path in list(paths.items()):
        try:
            (_SOURCES / name).parent.mkdir(parents=True, exist_ok=True)
            (_SOURCES / name).write_bytes(sources[path].encode())
        except OSError:  # a source has the name of another one's folder
            text = f"cannot lie beside the others as {name}: one of them is called as its folder"
            placement.problems.append(Problem(path, 0, 0, "INVALID_PATH", text))
            del paths[name]
    _SOURCES.mkdir(exist_ok=True)
    joint, output = _run_protoc(sorted(paths), includes, with_imports=True)
    if joint is not None and not placement.problems:
        return placement, joint
    attempts = []
    for name in sorted(paths):
        compiled, written = _run_protoc([name], includes, with_imports=False)
        attempts.append(CompileAttempt(name, written, compiled.file[0] if compiled is not None else None))
    names = placement.names
    unsound = {names[problem.file] for problem in placement.problems if problem.file in names}
    dependencies = {
        names[path]: [names[target] for target in targets] for path, targets in placement.dependencies.items()
    }
    return placement, [*placement.problems, *collect_problems(attempts, paths, dependencies, unsound, output)]


def _run_protoc(
    names: Sequence[str], includes: Path, *, with_imports: bool
) -> tuple[dp.FileDescriptorSet | None, str]:
    """Run protoc on sources; return its descriptor set, None where it refuses, and its output.

    names: paths below `_SOURCES`. includes: the folder of the sources that protoc brings along.
    """
    arguments = [
        "protoc",
        f"-I{_SOURCES}",
        f"-I{includes}",
        *(["--include_imports"] if with_imports else []),
        "--include_source_info",
        f"--descriptor_set_out={_SET}",
        *(str(_SOURCES / name) for name in names),  # with the folder, as a name may begin with a dash
    ]
    stderr = os.dup(2)
    with _OUTPUT.open("wb") as stream:
        os.dup2(stream.fileno(), 2)
        try:
            code = protoc.main(arguments)
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    written = _OUTPUT.read_text(errors="replace").replace(f"{_SOURCES}/", "")
    return (dp.FileDescriptorSet.FromString(_SET.read_bytes()) if code == 0 else None), written


if __name__ == "__main__":
    sys.exit(main())
