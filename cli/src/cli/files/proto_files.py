"""Compiles Protobuf files, folders and archives of a disk, with all their imports, to a FileDescriptorSet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from daggers.v1 import spec_pb2

from cli.errors import RefusedError
from cli.framework.usage_errors import UsageErrors
from daggerclient.findings import headline
from protofiles import MAX_FILES, MAX_UNPACKED, Problem, UploadedFile, compile_files
from protofiles.bundle import SUFFIX, find_path_problem
from protofiles.imports import scan_imports

REASON: Final = "INVALID_SCHEMA"


def load(files: Sequence[Path], imports: Sequence[Path]) -> spec_pb2.Schema:
    """Compile files and all they import to a schema, in dependency order, sources with their comments.

    files:   .proto sources, folders and zips of them, or serialised FileDescriptorSets (any other name).
    imports: further folders to look for imports in; each file's own folder comes after them.

    Raises: MisusedError for files that cannot be read, RefusedError with all problems by file and line.
    """
    errors = UsageErrors()
    given = []
    for path in files:
        contained = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not contained:
            errors.add(str(path), f"has no {SUFFIX} file")
        for file in contained:
            if why := _find_read_error(file):
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
            others.append(UploadedFile(str(file), _read(file)))
    compilation = compile_files([*sources.list_files(), *others], sources.roots)
    # Imports that an archive lacks may be in its folder, as those of a source.
    while compilation.missing and sources.add_imports(compilation.missing):
        compilation = compile_files([*sources.list_files(), *others], sources.roots)
    if compilation.problems:
        findings = [build_finding(problem, sources.display_names) for problem in compilation.problems]
        named = ", ".join(map(str, files))
        raise RefusedError(f"{named}: {headline(findings)}", reason=REASON, findings=findings)
    return spec_pb2.Schema(files=compilation.files)


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
        self.display_names: dict[str, str] = {}
        """Path on the disk as the caller wrote it, by path of the compilation."""

    @property
    def roots(self) -> list[str]:
        """Folders that imports are relative to, as paths of the compilation."""
        return [self._path(folder) for folder in self._folders]

    def list_files(self) -> list[UploadedFile]:
        """Return all files that were added, in that order."""
        return [UploadedFile(path, content) for path, content in self._files.items()]

    def add(self, file: Path) -> None:
        """Add a file and, recursively, its imports that are on the disk: MAX_FILES + 1 files at most."""
        path = self._path(file.parent.resolve() / file.name)
        if path in self._files or len(self._files) > MAX_FILES:
            return
        content = _read(file)
        self._files[path] = content
        self.display_names[path] = str(file)
        self.add_imports([statement.name for statement in scan_imports(content.decode(errors="replace"))])

    def add_imports(self, names: Iterable[str]) -> bool:
        """Add the files that these imports mean; tell whether any was new."""
        before = len(self._files)
        for name in names:
            file = self._find_import(name)
            if file is not None:
                self.add(file)
        return len(self._files) > before

    def _find_import(self, name: str) -> Path | None:
        """Find the file of an import in the first folder that has it."""
        if find_path_problem(name) is not None:
            return None
        return next((folder / name for folder in self._folders if (folder / name).is_file()), None)

    def _path(self, file: Path) -> str:
        number, top = next((n, top) for n, top in enumerate(self._tops) if file.is_relative_to(top))
        return (Path(f"folder-{number}") / file.relative_to(top)).as_posix()


def build_finding(problem: Problem, display_names: Mapping[str, str]) -> dict[str, object]:
    """Build the finding of a problem, with paths on the disk in place of those of the compilation.

    display_names: path on the disk by path of the compilation.
    """
    message = problem.message
    for path in sorted(display_names, key=len, reverse=True):
        message = message.replace(path, display_names[path])
    return {
        "code": problem.reason,
        "field": "",
        "message": message,
        "file": display_names.get(problem.file, problem.file) or None,
        "line": problem.line or None,
        "column": problem.column or None,
    }


def _read(file: Path) -> bytes:
    """Read a file, at most one byte more than MAX_UNPACKED: enough to be refused as too large."""
    with file.open("rb") as opened:
        return opened.read(MAX_UNPACKED + 1)


def _find_read_error(file: Path) -> str | None:
    """Open a file for reading; return the reason why that fails, None when it does not."""
    try:
        file.open("rb").close()
    except OSError as error:
        return error.strerror or type(error).__name__
    return None
