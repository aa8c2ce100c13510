"""The lease of a dagger: which generation may write.

One for all its checkpoints, because an edit makes a new one.

A driver takes the lease from any older generation, and asks before every write whether it still holds it. A
driver that cannot ask for `PATIENCE_S` stops, so that a host that went away silently can be replaced after
twice that time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from runtime.errors import FencedError, JobError, external

PATIENCE_S = 60.0
_NAME = "lease"


class LocalStore:
    """One small file that is replaced atomically, in a directory of this machine or of a shared mount.

    The seam for other places: whatever can `read` the generation and `take` it by a conditional write.
    """

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
                fresh = self._path.with_suffix(".new")
                with fresh.open("w", encoding="ascii") as file:
                    file.write(str(generation))
                    file.flush()
                    os.fsync(file.fileno())
                fresh.replace(self._path)
            return max(held, generation)


def local_directory(checkpoint_root: str) -> Path:
    """The directory a checkpoint root names. Raises `JobError` (EXTERNAL) for what is no local path."""
    parts = urlsplit(checkpoint_root)
    if parts.scheme not in ("", "file") or not parts.path.startswith("/"):
        raise external(
            "CHECKPOINT_ROOT_UNSUPPORTED",
            f"The checkpoint root {checkpoint_root!r} is not an absolute local path, and no other place can "
            "hold a lease yet; use a local directory or a mounted one.",
        )
    return Path(parts.path)


class Lease:
    """The right of one generation to write. Thread-safe."""

    def __init__(self, store: LocalStore, generation: int, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds. Nothing is held before `take`."""
        self._store = store
        self._generation = generation
        self._clock = clock
        self._confirmed = clock()

    def take(self) -> None:
        """Take the lease from an older generation, or again. Raises FencedError, or JobError (EXTERNAL)."""
        try:
            self._stand_against(self._store.take(self._generation))
        except (OSError, ValueError) as problem:
            raise self._unreadable(problem) from problem

    def check(self) -> None:
        """Return if this generation may write now.

        Raises FencedError when a newer one holds the lease, and `JobError` (EXTERNAL, retryable) when that
        could not be asked for `PATIENCE_S`; a shorter trouble is none.
        """
        try:
            held = self._store.read()
        except (OSError, ValueError) as problem:
            if self._clock() - self._confirmed < PATIENCE_S:
                return
            raise self._unreadable(problem) from problem
        if held < self._generation:  # the directory was emptied, or restored from an old copy
            held = self._store.take(self._generation)
        self._stand_against(held)

    def _stand_against(self, held: int) -> None:
        if held > self._generation:
            raise FencedError(self._generation, held)
        self._confirmed = self._clock()

    def _unreadable(self, problem: Exception) -> JobError:
        return external(
            "LEASE_UNREADABLE",
            f"The lease in the checkpoint root cannot be used ({problem}); check the disk and its rights.",
            retryable=True,
        )
