"""The lease of a dagger: which generation may write.

One for all its checkpoints, because an edit makes a new one.

A driver takes the lease from any older generation, and asks before every write whether it still holds it. A
driver that cannot ask for `PATIENCE_S` stops, so that a host that went away silently can be replaced after
twice that time.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from runtime.errors import FencedError, JobError, external
from runtime.state.hadoop import HadoopPath, HadoopStore, hadoop_path

PATIENCE_S = 60.0
_PERIOD_S = 1.0
_NAME = "lease"


class Store(Protocol):
    """Where the lease is."""

    def read(self) -> int:
        """The generation that holds it; 0 when nobody ever did. Raises OSError, ValueError."""

    def take(self, generation: int) -> int:
        """Take it from an older generation, or from none; the generation that holds it then."""


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
                fresh = self._path.with_suffix(".new")
                with fresh.open("w", encoding="ascii") as file:
                    file.write(str(generation))
                    file.flush()
                    os.fsync(file.fileno())
                fresh.replace(self._path)
            return max(held, generation)


def open_root(checkpoint_root: str) -> tuple[Path | HadoopPath, Store]:
    """The place that a checkpoint root names, and the lease in it. Raises `JobError` (EXTERNAL)."""
    parts = urlsplit(checkpoint_root)
    if not parts.path.startswith("/"):
        raise external(
            "CHECKPOINT_ROOT_UNSUPPORTED",
            f"The checkpoint root {checkpoint_root!r} is not absolute: give a directory from / on, or a URI.",
        )
    if parts.scheme in ("", "file"):
        local = Path(parts.path)
        return local, LocalStore(local)
    remote = hadoop_path(checkpoint_root)
    return remote, HadoopStore(remote)


class Lease:
    """The right of one generation to write. Thread-safe."""

    def __init__(
        self,
        store: Store,
        generation: int,
        clock: Callable[[], float],
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock` gives monotonic seconds, `wait` lets some pass. Nothing is held before `take`."""
        self._wait = wait
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

    def confirm(self) -> None:
        """Return once it is sure that this generation may write; while it cannot be asked, wait.

        Not knowing is no right to write: a newer generation may have the lease. Raises as `check`.
        """
        while not self.check():
            self._wait(_PERIOD_S)

    def check(self) -> bool:
        """Whether this generation is known to hold the lease now; False when that cannot be asked.

        Raises FencedError when a newer one holds the lease, and `JobError` (EXTERNAL, retryable) when that
        could not be asked for `PATIENCE_S`.
        """
        try:
            held = self._store.read()
            if held < self._generation:  # the directory was emptied, or restored from an old copy
                held = self._store.take(self._generation)
        except (OSError, ValueError) as problem:
            if self._clock() - self._confirmed < PATIENCE_S:
                return False
            raise self._unreadable(problem) from problem
        self._stand_against(held)
        return True

    @property
    def lost(self) -> bool:
        """Whether this generation could not make sure for `PATIENCE_S` that it may write.

        Also true while a check hangs, as it does when the store's host is unreachable.
        """
        return self._clock() - self._confirmed >= PATIENCE_S

    def give_up(self) -> JobError:
        """What to raise when the lease is lost."""
        return self._unreadable(OSError(f"no answer for {PATIENCE_S:.0f} s"))

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


class LeaseWatcher:
    """Asks for the lease every second, on a thread of its own: a store whose host is gone never answers."""

    def __init__(self, lease: Lease, *, wake: threading.Event, ended: threading.Event) -> None:
        """Starts at once, until `ended`; `wake` is set when the lease is not this generation's any more."""
        self._lease = lease
        self._wake = wake
        self._ended = ended
        self._failure: JobError | None = None
        threading.Thread(target=self._watch, name="lease", daemon=True).start()

    def check(self) -> None:
        """Return if this generation may go on. Raises what `Lease.check` does; never waits."""
        if self._failure is not None:
            raise self._failure
        if self._lease.lost:
            raise self._lease.give_up()

    def _watch(self) -> None:
        while self._failure is None and not self._ended.is_set():
            try:
                self._lease.check()
            except JobError as failure:
                self._failure = failure
                self._wake.set()
            self._ended.wait(_PERIOD_S)
