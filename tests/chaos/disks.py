"""Disks that can be full, out of inodes or read-only: a small tmpfs where one may be mounted. Elsewhere they
can only be full, by a limit on the size of files.

Each place of the state directory that holds data gets a disk of its own, so that one is full at a time.
"""

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
from tests.chaos.schedule import DISKS

SIZE_MIB = 768
INODES = 65_536
FILLER = ".filler"
CHUNK = bytes(1024 * 1024)
# A process cannot make any file longer than this while its disk is full.
LIMIT_BYTES = 4096


class Disks:
    """The disks of a state directory; `tmpfs` says how they become full."""

    def __init__(self, folder: Path, *, tmpfs: bool) -> None:
        self._folder = folder
        self.tmpfs = tmpfs

    @contextmanager
    def full(self, disk: str, writers: Iterable[psutil.Process]) -> Iterator[None]:
        """Nothing more can be written there; `writers` are those who do."""
        if self.tmpfs:
            filler = self._folder / disk / FILLER
            try:
                fill(filler)
                yield
            finally:
                filler.unlink(missing_ok=True)
        else:
            with limited(writers):
                yield

    @contextmanager
    def out_of_inodes(self, disk: str) -> Iterator[None]:
        """No further file can be made there."""
        filler = self._folder / disk / FILLER
        try:
            use_up(filler)
            yield
        finally:
            shutil.rmtree(filler, ignore_errors=True)

    @contextmanager
    def read_only(self, disk: str) -> Iterator[None]:
        """No file can be opened for writing there; what is open stays so."""
        folder = self._folder / disk
        subprocess.run(["mount", "--bind", folder, folder], check=True, capture_output=True)
        try:
            words = ["mount", "-o", "remount,bind,ro", folder]
            subprocess.run(words, check=True, capture_output=True)
            yield
        finally:
            _unmount(folder)


def use_up(filler: Path) -> None:
    """Make files in a folder until its disk has no inode left."""
    try:
        filler.mkdir()
        for number in range(INODES):
            (filler / str(number)).touch()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def fill(filler: Path) -> None:
    """Write a file until its disk has no byte left."""
    with filler.open("wb", buffering=0) as file:
        size = len(CHUNK)
        while size:
            try:
                file.write(CHUNK[:size])
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2


@contextmanager
def limited(writers: Iterable[psutil.Process]) -> Iterator[None]:
    """These processes, as far as they live, can write no file beyond its first bytes."""
    hit = list(writers)
    try:
        for each in hit:
            with suppress(psutil.Error):
                _, hard = each.rlimit(resource.RLIMIT_FSIZE)
                each.rlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
        yield
    finally:
        for each in hit:
            with suppress(psutil.Error):
                _, hard = each.rlimit(resource.RLIMIT_FSIZE)
                each.rlimit(resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def mounted(folder: Path) -> Iterator[Disks]:
    """The disks of a state directory that is empty; gone with all they hold when the context ends."""
    with ExitStack() as mounts:
        for disk in DISKS:
            if not _mount(folder / disk):
                mounts.close()
                break
            mounts.callback(_unmount, folder / disk)
        else:
            yield Disks(folder, tmpfs=True)
            return
    yield Disks(folder, tmpfs=False)


def _mount(folder: Path) -> bool:
    if shutil.which("mount") is None or os.geteuid() != 0:
        return False
    folder.mkdir()
    words = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size={SIZE_MIB}m,nr_inodes={INODES},mode=700",
        "daggers-chaos",
        folder,
    ]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", folder], check=True, capture_output=True)
