"""Checkpoint roots in directories: of this machine, or of a mount that hosts share."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chassis.files import replace_text

_NAME = "lease"


@dataclass(frozen=True, slots=True, order=True)
class LocalPlace:
    """A path of this machine."""

    local: Path

    def __str__(self) -> str:
        return str(self.local)

    def __truediv__(self, name: str) -> LocalPlace:
        return LocalPlace(self.local / name)

    @property
    def name(self) -> str:
        """The last part."""
        return self.local.name

    def with_name(self, name: str) -> LocalPlace:
        """What is called `name` beside it."""
        return LocalPlace(self.local.with_name(name))

    def iterdir(self) -> Iterator[LocalPlace]:
        """What is in this directory."""
        return map(LocalPlace, self.local.iterdir())

    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.local.is_dir()

    def exists(self) -> bool:
        """Whether there is a file or a directory of this name."""
        try:
            self.local.stat()
        except FileNotFoundError:
            return False
        return True

    def modified(self) -> float:
        """When it was written last, in seconds after the epoch."""
        return self.local.stat().st_mtime

    def read_text(self) -> str:
        """All of a file, as UTF-8."""
        return self.local.read_text("utf-8")

    def create(self) -> None:
        """An empty file; it may exist."""
        self.local.touch()

    def write_text(self, text: str) -> None:
        """Make this all of a file, which may exist, in one step that survives a power cut."""
        self.local.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self.local, text, durable=True)

    def remove(self) -> None:
        """Delete it, and all below it."""
        shutil.rmtree(self.local) if self.local.is_dir() else self.local.unlink()


class LocalStore:
    """One small file that is replaced atomically, in a directory of this machine or of a shared mount."""

    def __init__(self, root: Path) -> None:
        self._path = root / _NAME
        self._lock = root / f"{_NAME}.lock"

    def read(self) -> int:
        """The generation that holds the lease; 0 when nobody ever did. Raises OSError, ValueError."""
        try:
            return int(self._path.read_text(encoding="ascii"))
        except FileNotFoundError:
            return 0

    def take(self, generation: int) -> int:
        """Replace an older generation, or none, by this one; the generation that holds the lease then."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            held = self.read()
            if held < generation:
                replace_text(self._path, str(generation), durable=True)
            return max(held, generation)

    def take_again(self, generation: int) -> int:
        """The same of one that had it. Raises OSError where the whole checkpoint root is gone."""
        self._lock.parent.stat()
        return self.take(generation)
