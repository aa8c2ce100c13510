"""The last word of a driver's process: which daggers were in which step when it was killed.

Whoever begins a step for a dagger writes so into a mapped file of the directory that the process works in,
and clears it after. A mapping needs no flush to survive kill -9: the page cache has it. The driver and its
Python workers write the same file, each thread in a slot of its own, on which its process has a lock.

A slot is `length (u16), crc32 (u32), generation (u64)`, then `dagger NUL step` of that length. Its length is
written last and cleared first, so that a slot is whole or empty.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = "last-word"
"""Its name in the directory that a driver's process works in."""
_SLOTS: Final = 128
"""More steps than these at once are more threads than a process of many members has."""
_SLOT: Final = 128
_SIZE: Final = _SLOTS * _SLOT
_HEADER: Final = struct.Struct("<HIQ")
_LENGTH: Final = struct.Struct("<H")
_TEXT: Final = _SLOT - _HEADER.size


@dataclass(frozen=True, slots=True, order=True)
class LastWord:
    """A step that a process had begun for a dagger, and not ended."""

    dagger: str
    generation: int
    step: str


def read(process_directory: Path) -> tuple[LastWord, ...]:
    """Return what a process was in the middle of, in order; empty where it left no word.

    What cannot be read says nothing: this never raises for what stands in the file.
    """
    try:
        content = (process_directory / FILE).read_bytes()
    except OSError:
        return ()
    slots = (content[start : start + _SLOT] for start in range(0, len(content) - _SLOT + 1, _SLOT))
    return tuple(sorted({word for slot in slots if (word := _parse(slot)) is not None}))


def create(process_directory: Path) -> None:
    """Create the file of a process, empty, before any of its recorders looks for it. Raises: OSError."""
    file = os.open(process_directory / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # on a full disk a write to a mapped page without a block would end the process (SIGBUS)
        os.posix_fallocate(file, 0, _SIZE)
    finally:
        os.close(file)


def remove(process_directory: Path) -> None:
    """Remove the file of a process that ends in order."""
    with suppress(OSError):
        (process_directory / FILE).unlink()


def _parse(slot: bytes) -> LastWord | None:
    length, crc, generation = _HEADER.unpack_from(slot)
    text = slot[_HEADER.size : _HEADER.size + length]
    if not 0 < length <= _TEXT or zlib.crc32(text) != crc:
        return None
    dagger, _, step = text.decode("utf-8", "replace").partition("\0")
    return LastWord(dagger, generation, step)


class StepRecorder:
    """Writes the steps of one process. Thread-safe; a fork of the process opens the file anew.

    No step fails for it: where there is no file, or every slot is taken, a step leaves no word.
    """

    def __init__(self, process_directory: Path) -> None:
        self._path = process_directory / FILE
        self._guard = threading.Lock()
        self._pid = 0
        self._file = -1
        self._map: mmap.mmap | None = None
        self._locked = set[int]()
        """Slots that this process has a lock on."""
        self._free: list[int] = []
        """Those of them that no thread uses."""
        self._failed: dict[tuple[str, int], int] = {}
        """Those of them that have the step in which a launch failed, by dagger and generation."""

    @contextmanager
    def step(
        self, dagger: str, generation: int, step: str, harmless: tuple[type[BaseException], ...] = ()
    ) -> Iterator[None]:
        """Record a step for a launch within the context.

        A step that fails stays until the launch begins another one: where a part of a process has died, the
        rest sees errors of any kind before it ends. harmless: errors that come of no such thing.
        """
        launch = dagger, generation
        slot = self._take(launch)
        if slot is None:
            yield
            return
        self._write(slot, LastWord(dagger, generation, step))
        try:
            yield
        except BaseException as error:
            if isinstance(error, (GeneratorExit, *harmless)):
                self._give_back(slot)
            else:
                self._keep(launch, slot)
            raise
        self._give_back(slot)

    def _take(self, launch: tuple[str, int]) -> int | None:
        """Return a slot of this process's own, best that of the launch's last failure; None where there is
        none.
        """
        with self._guard, suppress(OSError, ValueError):
            if self._pid != os.getpid():
                self._open()
            if (slot := self._failed.pop(launch, None)) is not None:
                return slot
            slot = self._free.pop() if self._free else self._lock_another()
            if slot is None and self._failed:
                return self._failed.pop(next(iter(self._failed)))
            return slot
        return None

    def _keep(self, launch: tuple[str, int], slot: int) -> None:
        with self._guard:
            before = self._failed.pop(launch, None)
            self._failed[launch] = slot
        if before is not None:
            self._give_back(before)

    def _give_back(self, slot: int) -> None:
        self._clear(slot)
        with self._guard:
            self._free.append(slot)

    def _open(self) -> None:
        """Open the file of this process. Raises: OSError, ValueError where it is too short."""
        # a fork has none of its parent's locks
        self._map, self._locked, self._free, self._failed = None, set(), [], {}
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._map, self._pid = mmap.mmap(self._file, _SIZE), os.getpid()

    def _lock_another(self) -> int | None:
        """Lock a slot that no living process has, for as long as this one lives; one without a word first."""
        if self._map is None:
            return None
        free = [slot for slot in range(_SLOTS) if slot not in self._locked]
        for slot in sorted(free, key=self._has_word):
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SLOT, slot * _SLOT)
                self._locked.add(slot)
                return slot
        return None

    def _has_word(self, slot: int) -> bool:
        return self._map is not None and _LENGTH.unpack_from(self._map, slot * _SLOT)[0] > 0

    def _write(self, slot: int, word: LastWord) -> None:
        text = f"{word.dagger}\0{word.step}".encode()[:_TEXT]
        start, crc = slot * _SLOT, zlib.crc32(text)
        self._clear(slot)
        if self._map is not None:
            self._map[start + _HEADER.size : start + _HEADER.size + len(text)] = text
            _HEADER.pack_into(self._map, start, 0, crc, word.generation)
            _LENGTH.pack_into(self._map, start, len(text))

    def _clear(self, slot: int) -> None:
        if self._map is not None:
            _LENGTH.pack_into(self._map, slot * _SLOT, 0)
