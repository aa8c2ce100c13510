"""Store the files of a table in a directory: staged in `_daggers/staged`, published by a rename."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Final

import pyarrow as pa
from daggers.v1 import spec_pb2

from daggerspec import folders
from runtime.clients.files import StoredFile
from runtime.errors import INTERNAL, JobError, TemporaryError, external, user

STAGED: Final = "_daggers/staged"
_PART: Final = ".part-"
"""Prefix of small files that are not complete yet."""
_LONG_S: Final = 3600
_DENIED: Final = (errno.EACCES, errno.EPERM)


class LocalFiles:
    """Files in a folder of this host, or of a file system that all hosts share."""

    def __init__(self, root: Path) -> None:
        """Use a root whose symbolic links, if any, an administrator made."""
        self._root = root

    @classmethod
    def of(cls, sink: spec_pb2.ResolvedSink) -> LocalFiles:
        """Open the files of a sink. Raises: JobError (USER) where its folder is in none that is allowed."""
        sink_options = sink.sink.parquet
        if not sink.HasField("egress"):  # an administrator registered it
            return cls(Path(os.path.realpath(sink_options.location)) / sink_options.table)
        allowed = folders.holding(sink.egress.folders, sink_options.location)
        if allowed is None or not folders.is_plain(sink_options.location):
            allowed_folders = ", ".join(sink.egress.folders) or "nowhere"
            text = f"No files may be written to {sink_options.location}; where they may: {allowed_folders}"
            raise user("FOLDER_REFUSED", f"{text} (DAGGERS_ALLOWED_FOLDERS).")
        below = PurePosixPath(sink_options.location).relative_to(allowed)
        return cls(Path(os.path.realpath(allowed)) / below / sink_options.table)

    def stage(self, name: str, content: pa.Buffer) -> str:
        """Write a file to the staging folder, which readers of tables ignore."""
        with self._errors():
            path = self._folder(STAGED) / PurePosixPath(name).name
            _write(path, memoryview(content))
            _sync(path.parent)
        return path.name

    def publish(self, name: str, staged: str) -> None:
        """Move a file to its folder."""
        with self._errors():
            path = self._folder(str(PurePosixPath(name).parent)) / PurePosixPath(name).name
            try:
                (self._root / STAGED / staged).replace(path)
            except FileNotFoundError:
                if path.is_file():
                    return
                text = f"The file {name} of {self._root} that a batch has written is gone."
                raise JobError(INTERNAL, "STAGED_FILE_GONE", text, retryable=True) from None
            _sync(path.parent)

    def list_staged(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the staged files by name."""
        with self._errors():
            names = sorted(_list_names(self._root / STAGED))
        return ((name, name) for name in names if name.startswith(prefix))

    def discard(self, staged: str) -> None:
        """Remove a staged file."""
        with self._errors():
            (self._root / STAGED / staged).unlink(missing_ok=True)

    def put_once(self, name: str, content: bytes) -> bool:
        """Write a file aside, and link it to its name, which succeeds for the first writer only."""
        with self._errors():
            path = self._folder(str(PurePosixPath(name).parent)) / PurePosixPath(name).name
            part_file = self._folder(STAGED) / f"{_PART}{token_hex(8)}"
            self._remove_old_parts(part_file.parent)
            try:
                _write(part_file, content)
                os.link(part_file, path)
            except FileExistsError:
                return False
            finally:
                with suppress(OSError):
                    part_file.unlink()
            _sync(path.parent)
        return True

    def get(self, name: str) -> bytes | None:
        """Read a file; None where there is none."""
        with self._errors():
            try:
                return (self._root / name).read_bytes()
            except FileNotFoundError:
                return None

    def names(self, folder: str) -> list[str]:
        """List the names in a folder, without hidden ones."""
        with self._errors():
            return sorted(name for name in _list_names(self._root / folder) if not name.startswith("."))

    def files(self, folder: str) -> list[StoredFile]:
        """List the files in a folder, without hidden ones."""
        with self._errors():
            try:
                entries = sorted(os.scandir(self._root / folder), key=lambda entry: entry.name)
            except FileNotFoundError:
                return []
            return [
                StoredFile(entry.name, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))
                for entry in entries
                if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
                for stat in [entry.stat(follow_symlinks=False)]
            ]

    def probe(self) -> None:
        """Write a file and remove it."""
        with self._errors():
            path = self._folder(STAGED) / f"{_PART}{token_hex(8)}"
            try:
                _write(path, b"?")
            finally:
                with suppress(OSError):
                    path.unlink()

    def _folder(self, name: str) -> Path:
        """Return a folder, made if missing. Raises: JobError (USER) where a symbolic link leads elsewhere."""
        path = self._root / name
        if os.path.realpath(path) != str(path):
            text = f"The folder {path} is, or is below, a symbolic link, which no files are written through."
            raise user("FOLDER_REFUSED", text)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _remove_old_parts(self, folder: Path) -> None:
        """Remove incomplete small files that are so old that their writers must have died."""
        for name in _list_names(folder):
            with suppress(FileNotFoundError):
                if name.startswith(_PART) and time.time() - (folder / name).stat().st_mtime > _LONG_S:
                    (folder / name).unlink()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._meaning(error) from error

    def _meaning(self, error: OSError) -> JobError:
        detail = f"Files cannot be written to {self._root}: {error.strerror}."
        if error.errno in _DENIED:
            return external("SINK_DENIED", detail, retryable=True)
        return TemporaryError("SINK_UNAVAILABLE", detail)


def _write(path: Path, content: bytes | memoryview) -> None:
    """Write a file and flush it to the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Flush a folder's names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _list_names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
