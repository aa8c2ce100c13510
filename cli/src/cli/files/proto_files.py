"""Protobuf files to a FileDescriptorSet: compiled by protoc, or read as one."""

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from cli.errors import RefusedError
from cli.framework.usage_errors import UsageErrors

PLACE = re.compile(r"(?P<file>[^:]+):(?:(?P<line>\d+):(?P<column>\d+): )?(?P<message>.+)")
TIMEOUT_S = 60
_SET = "set.pb"


def load(files: Sequence[Path], imports: Sequence[Path]) -> spec_pb2.Schema:
    """The files and all they import, in dependency order; .proto sources with their comments.

    files:   .proto sources, or serialised FileDescriptorSets (any other name).
    imports: further folders to look for imports in; each file's own folder comes first.

    Raises MisusedError for what cannot be read, RefusedError with protoc's findings, file and line.
    """
    errors = UsageErrors()
    for path in files:
        if why := _unreadable(path):
            errors.add(str(path), f"cannot be read: {why}")
    for folder in imports:
        if not folder.is_dir():
            errors.add(f"-I {folder}", "there is no such folder")
    errors.refuse()
    merged: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    sources = [file for file in files if file.suffix == ".proto"]
    sets = [read_set(file) for file in files if file.suffix != ".proto"]
    if sources:
        sets.append(compile_sources(sources, imports))
    for files_set in sets:
        for file in files_set.file:
            merged.setdefault(file.name, file)
    return spec_pb2.Schema(files=descriptor_pb2.FileDescriptorSet(file=merged.values()))


def read_set(file: Path) -> descriptor_pb2.FileDescriptorSet:
    """A serialised FileDescriptorSet. Raises: RefusedError when it is none, or empty."""
    try:
        descriptors = descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes())
    except DecodeError as error:
        raise RefusedError(
            f"{file} is neither a .proto file nor a descriptor set (protoc --include_imports)",
            reason="INVALID_SCHEMA",
        ) from error
    if not descriptors.file:
        raise RefusedError(f"{file} is an empty descriptor set", reason="INVALID_SCHEMA")
    return descriptors


def compile_sources(sources: Sequence[Path], imports: Sequence[Path]) -> descriptor_pb2.FileDescriptorSet:
    """What protoc makes of .proto files. Raises: RefusedError with what protoc says."""
    roots = list(dict.fromkeys([*(p.resolve() for p in imports), *(s.resolve().parent for s in sources)]))
    well_known = resources.files("grpc_tools").joinpath("_proto")
    with tempfile.TemporaryDirectory() as scratch:
        # protoc divides folders at colons, and reads what stands before = as a name of its own: by links they
        # are called as it can read them
        called = {root: f"imports-{number}" for number, root in enumerate(roots)}
        for root, name in called.items():
            (Path(scratch) / name).symlink_to(root, target_is_directory=True)
        done = subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", *(f"-I{name}" for name in called.values()),
             f"-I{well_known}", "--include_imports", "--include_source_info", f"--descriptor_set_out={_SET}",
             *(f"{called[s.resolve().parent]}/{s.name}" for s in sources)],
            capture_output=True, text=True, check=False, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL,
            cwd=scratch,
        )  # fmt: skip
        if done.returncode != 0:
            raise RefusedError(
                f"protoc refuses {', '.join(str(source) for source in sources)}",
                reason="INVALID_SCHEMA",
                findings=[finding(line, called) for line in filter(str.strip, io.StringIO(done.stderr))],
            )
        return descriptor_pb2.FileDescriptorSet.FromString((Path(scratch) / _SET).read_bytes())


def finding(said: str, called: Mapping[Path, str]) -> dict[str, object]:
    """One line of protoc's complaint as a finding; `called` are the names by which it knows folders."""

    def told(text: str) -> str:
        for root, name in called.items():
            text = text.replace(f"{name}/", f"{root}/")
        return text

    match = PLACE.fullmatch(said.strip())
    if match is None:
        return {"code": "PROTOC", "field": "", "message": told(said.strip()), "line": None, "column": None}
    return {
        "code": "PROTOC",
        "field": "",
        "message": told(match["message"].strip()),
        "file": told(match["file"]),
        "line": int(match["line"]) if match["line"] else None,
        "column": int(match["column"]) if match["column"] else None,
    }


def _unreadable(file: Path) -> str | None:
    """Why a file cannot be read; None when it can."""
    try:
        file.open("rb").close()
    except OSError as error:
        return error.strerror or type(error).__name__
    return None
