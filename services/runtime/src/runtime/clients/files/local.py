"""The files of a table in a directory: staged files wait in `_daggers/staged`, and are moved."""

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
from runtime.clients.files import Seen
from runtime.errors import INTERNAL, JobError, TemporaryError, external, user

STAGED: Final = "_daggers/staged"
_PART: Final = ".part-"
"""What names of small files begin with until they are whole."""
_LONG_S: Final = 3600
_DENIED: Final = (errno.EACCES, errno.EPERM)


class LocalFiles:
    """A table's folder on this host, or on a file system that all hosts see."""

    def __init__(self, root: Path) -> None:
        """`root` has no symbolic link in it that anybody but an administrator made."""
        self._root = root

    @classmethod
    def of(cls, sink: spec_pb2.ResolvedSink) -> LocalFiles:
        """Those of a sink. Raises: JobError (USER) where its folder is in none that is allowed."""
        asked = sink.sink.parquet
        if not sink.HasField("egress"):  # an administrator registered it
            return cls(Path(os.path.realpath(asked.location)) / asked.table)
        allowed = folders.holding(sink.egress.folders, asked.location)
        if allowed is None or not folders.is_plain(asked.location):
            told = ", ".join(sink.egress.folders) or "nowhere"
            text = f"No files may be written to {asked.location}; where they may: {told}"
            raise user("FOLDER_REFUSED", f"{text} (DAGGERS_ALLOWED_FOLDERS).")
        below = PurePosixPath(asked.location).relative_to(allowed)
        return cls(Path(os.path.realpath(allowed)) / below / asked.table)

    def stage(self, name: str, content: pa.Buffer) -> str:
        """Write a file where no reader of tables looks."""
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

    def staged(self, prefix: str) -> Iterator[tuple[str, str]]:
        """What waits."""
        with self._errors():
            names = sorted(_listed(self._root / STAGED))
        return ((name, name) for name in names if name.startswith(prefix))

    def discard(self, staged: str) -> None:
        """Remove what waits."""
        with self._errors():
            (self._root / STAGED / staged).unlink(missing_ok=True)

    def put_once(self, name: str, content: bytes) -> bool:
        """Write a file elsewhere and link it: whoever comes first."""
        with self._errors():
            path = self._folder(str(PurePosixPath(name).parent)) / PurePosixPath(name).name
            written = self._folder(STAGED) / f"{_PART}{token_hex(8)}"
            self._remove_old_parts(written.parent)
            try:
                _write(written, content)
                os.link(written, path)
            except FileExistsError:
                return False
            finally:
                with suppress(OSError):
                    written.unlink()
            _sync(path.parent)
        return True

    def get(self, name: str) -> bytes | None:
        """What stands in a file."""
        with self._errors():
            try:
                return (self._root / name).read_bytes()
            except FileNotFoundError:
                return None

    def names(self, folder: str) -> list[str]:
        """What is in a folder, but for hidden files."""
        with self._errors():
            return sorted(name for name in _listed(self._root / folder) if not name.startswith("."))

    def files(self, folder: str) -> list[Seen]:
        """The files of a folder, but for hidden ones."""
        with self._errors():
            try:
                entries = sorted(os.scandir(self._root / folder), key=lambda entry: entry.name)
            except FileNotFoundError:
                return []
            return [
                Seen(entry.name, told.st_size, datetime.fromtimestamp(told.st_mtime, UTC))
                for entry in entries
                if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
                for told in [entry.stat(follow_symlinks=False)]
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
        """A folder, made where it is not there. Raises: JobError (USER) where a link leads elsewhere."""
        path = self._root / name
        if os.path.realpath(path) != str(path):
            text = f"The folder {path} is, or is below, a symbolic link, which no files are written through."
            raise user("FOLDER_REFUSED", text)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _remove_old_parts(self, folder: Path) -> None:
        """Remove parts of small files whose writers have died: nobody takes so long."""
        for name in _listed(folder):
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
        told = f"Files cannot be written to {self._root}: {error.strerror}."
        if error.errno in _DENIED:
            return external("SINK_DENIED", told, retryable=True)
        return TemporaryError("SINK_UNAVAILABLE", told)


def _write(path: Path, content: bytes | memoryview) -> None:
    """Write a file that is on the disk when this returns."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _listed(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
