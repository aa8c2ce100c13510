"""Protobuf files, folders and archives of a disk to a FileDescriptorSet, with all their imports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from daggers.v1 import spec_pb2

from cli.errors import RefusedError
from cli.framework.usage_errors import UsageErrors
from daggerclient.findings import headline
from protofiles import MAX_FILES, MAX_UNPACKED, Brought, Problem, compile_files
from protofiles.bundle import SUFFIX, path_problem
from protofiles.imports import scan

REASON: Final = "INVALID_SCHEMA"


def load(files: Sequence[Path], imports: Sequence[Path]) -> spec_pb2.Schema:
    """The files and all they import, in dependency order; .proto sources with their comments.

    files:   .proto sources, folders and zips of them, or serialised FileDescriptorSets (any other name).
    imports: further folders to look for imports in; each file's own folder comes after them.

    Raises MisusedError for what cannot be read, RefusedError with everything that is wrong, by file and line.
    """
    errors = UsageErrors()
    given = []
    for path in files:
        contained = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not contained:
            errors.add(str(path), f"has no {SUFFIX} file")
        for file in contained:
            if why := _unreadable(file):
                errors.add(str(file), f"cannot be read: {why}")
        given += contained
    for folder in imports:
        if not folder.is_dir():
            errors.add(f"-I {folder}", "there is no such folder")
    errors.refuse()
    sources = _Sources([*imports, *(path if path.is_dir() else path.parent for path in files)])
    others = []
    for file in given:
        if file.suffix == SUFFIX:
            sources.add(file)
        else:
            others.append(Brought(str(file), _read(file)))
    compiled = compile_files([*sources.brought(), *others], sources.roots)
    # What an archive imports and has not is looked for beside it, as for a source.
    while compiled.missing and sources.add_imports(compiled.missing):
        compiled = compile_files([*sources.brought(), *others], sources.roots)
    if compiled.problems:
        findings = [finding(problem, sources.shown) for problem in compiled.problems]
        named = ", ".join(map(str, files))
        raise RefusedError(f"{named}: {headline(findings)}", reason=REASON, findings=findings)
    return spec_pb2.Schema(files=compiled.files)


class _Sources:
    """The .proto files that are compiled, each by a path below one of the folders that imports are from."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(dict.fromkeys(folder.resolve() for folder in folders))
        self._tops = [
            folder
            for folder in self._folders
            if not any(folder != other and folder.is_relative_to(other) for other in self._folders)
        ]
        self._files: dict[str, bytes] = {}
        self.shown: dict[str, str] = {}
        """How a person calls each file, by its path."""

    @property
    def roots(self) -> list[str]:
        """The folders that imports are from, as paths."""
        return [self._path(folder) for folder in self._folders]

    def brought(self) -> list[Brought]:
        """All that was added."""
        return [Brought(path, content) for path, content in self._files.items()]

    def add(self, file: Path) -> None:
        """Add a file and, as far as they are on the disk, all that it imports."""
        path = self._path(file.parent.resolve() / file.name)
        if path in self._files or len(self._files) > MAX_FILES:
            return
        content = _read(file)
        self._files[path] = content
        self.shown[path] = str(file)
        self.add_imports([wanted.name for wanted in scan(content.decode(errors="replace"))])

    def add_imports(self, names: Iterable[str]) -> bool:
        """Add what is imported by these names; whether any of it was new."""
        before = len(self._files)
        for name in names:
            file = self._meant(name)
            if file is not None:
                self.add(file)
        return len(self._files) > before

    def _meant(self, name: str) -> Path | None:
        """The file on the disk that an import means, if there is one."""
        if path_problem(name) is not None:
            return None
        return next((folder / name for folder in self._folders if (folder / name).is_file()), None)

    def _path(self, file: Path) -> str:
        number, top = next((n, top) for n, top in enumerate(self._tops) if file.is_relative_to(top))
        return (Path(f"folder-{number}") / file.relative_to(top)).as_posix()


def finding(problem: Problem, shown: Mapping[str, str]) -> dict[str, object]:
    """A problem as a finding; `shown` are the names by which a person knows files."""
    message = problem.message
    for path in sorted(shown, key=len, reverse=True):
        message = message.replace(path, shown[path])
    return {
        "code": problem.reason,
        "field": "",
        "message": message,
        "file": shown.get(problem.file, problem.file) or None,
        "line": problem.line or None,
        "column": problem.column or None,
    }


def _read(file: Path) -> bytes:
    """As much of a file as is looked at, and a byte more where that is not all."""
    with file.open("rb") as opened:
        return opened.read(MAX_UNPACKED + 1)


def _unreadable(file: Path) -> str | None:
    """Why a file cannot be read; None when it can."""
    try:
        file.open("rb").close()
    except OSError as error:
        return error.strerror or type(error).__name__
    return None
