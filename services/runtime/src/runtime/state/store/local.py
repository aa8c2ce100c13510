"""Store checkpoint roots in directories: of this machine, or of a mount that hosts share."""

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
    """Path on this machine."""

    local: Path

    def __str__(self) -> str:
        return str(self.local)

    def __truediv__(self, name: str) -> LocalPlace:
        return LocalPlace(self.local / name)

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.local.name

    def with_name(self, name: str) -> LocalPlace:
        """Return the path called `name` beside this one."""
        return LocalPlace(self.local.with_name(name))

    def iterdir(self) -> Iterator[LocalPlace]:
        """List this directory."""
        return map(LocalPlace, self.local.iterdir())

    def is_dir(self) -> bool:
        """Tell whether it is a directory."""
        return self.local.is_dir()

    def exists(self) -> bool:
        """Tell whether there is a file or a directory of this name."""
        try:
            self.local.stat()
        except FileNotFoundError:
            return False
        return True

    def modified_at(self) -> float:
        """Return the time of the last write, in seconds since 1970."""
        return self.local.stat().st_mtime

    def read_text(self) -> str:
        """Read a whole file as UTF-8."""
        return self.local.read_text("utf-8")

    def create(self) -> None:
        """Create an empty file; it may exist."""
        self.local.touch()

    def write_text(self, text: str) -> None:
        """Replace the content of a file atomically and durably; it may not exist."""
        self.local.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self.local, text, durable=True)

    def remove(self) -> None:
        """Delete it, with everything below it."""
        shutil.rmtree(self.local) if self.local.is_dir() else self.local.unlink()


class LocalStore:
    """Lease in a small file, replaced atomically, in a directory of this machine or of a shared mount."""

    def __init__(self, root: Path) -> None:
        self._path = root / _NAME
        self._lock = root / f"{_NAME}.lock"

    def read(self) -> int:
        """Return the generation that holds the lease; 0 before the first. Raises: OSError, ValueError."""
        try:
            return int(self._path.read_text(encoding="ascii"))
        except FileNotFoundError:
            return 0

    def take(self, generation: int) -> int:
        """Replace an older generation, if any, by this one; return the one that holds the lease then."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            holder = self.read()
            if holder < generation:
                replace_text(self._path, str(generation), durable=True)
            return max(holder, generation)

    def take_again(self, generation: int) -> int:
        """Take a lease back that is gone. Raises: OSError where the whole checkpoint root is gone."""
        self._lock.parent.stat()
        return self.take(generation)
