"""Retention of what launches leave on disk. Nothing is removed on the word of an empty log."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from daggerspec import anew, checkpointroot, rundir
from fleet import Dagger, Fleet
from fleet.fold.phases import DELETED

# The logs of this many launches of a dagger are kept.
KEPT: Final = 10
DELETED_KEPT: Final = timedelta(days=1)
"""Time for which logs outlive their dagger: people look at them after it is gone, too."""


def checkpoint_root(checkpoints: str, dagger: Dagger) -> str:
    """Return the directory of a dagger's lease and checkpoints: a later dagger of the same name has
    another.
    """
    return f"{checkpoints.rstrip('/')}/{dagger.name}-{dagger.create_sequence}"


def directory(checkpoints: str) -> Path | None:
    """Return the directory of this host that a root names; None for one on another file system."""
    local = checkpointroot.directory(checkpoints)
    return None if local is None else Path(local)


def is_there(checkpoints: str) -> bool:
    """Tell whether a root of checkpoints can be read from this host, and is the one that it should be; may
    block. True of a root on another file system: drivers alone can read that, and take their lease there.
    """
    root = directory(checkpoints)
    return root is None or (root / anew.MARKER).is_file()


def leftovers(
    fleet: Fleet,
    runs: Path,
    checkpoints: Path | None,
    now: datetime,
    homes: Collection[Path] = (),
) -> list[Path]:
    """Return the directories of deleted daggers and of launches long past, and scratch space of those that
    ended. homes: directories of launches whose processes live on with others, which stay.

    The launches of a deleted dagger stay for `DELETED_KEPT`, its checkpoints do not. `checkpoints` is None
    where they are on another file system: what is there is for people to remove.
    A directory whose dagger the fold does not know is left alone: the log may not be the one it came from.
    """
    removable = []
    for directory in _directories(checkpoints):
        name, _, created = directory.name.rpartition("-")
        dagger = fleet.daggers.get(name)
        if dagger is not None and created.isdigit() and _is_deleted(dagger, int(created)):
            removable.append(directory)
    homes_of = defaultdict[Path, set[int]](set)
    for home in homes:
        if home.name.isdigit():
            homes_of[home.parent].add(int(home.name))
    for directory in _directories(runs):
        dagger = fleet.daggers.get(directory.name)
        if dagger is None:
            continue
        launches = sorted(int(path.name) for path in _directories(directory) if path.name.isdigit())
        ended = dagger.phase_time if dagger.phase == DELETED else dagger.create_time  # or before that
        recent = now - ended < DELETED_KEPT
        deleted = {launch for launch in launches if _is_deleted(dagger, launch) and not recent}
        old = deleted | set(launches[:-KEPT])
        running = {*dagger.running, *homes_of[directory]}
        if dagger.phase == DELETED and not recent and len(old) == len(launches) and not running:
            removable.append(directory)
            continue
        for launch in launches:
            if launch in old - {dagger.generation, *running}:
                removable.append(directory / str(launch))
            elif launch not in running and (directory / str(launch) / rundir.TEMPORARY).is_dir():
                removable.append(directory / str(launch) / rundir.TEMPORARY)
    return removable


def remove(directories: list[Path]) -> None:
    """Remove directories with all they hold; one that is gone is fine."""
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _is_deleted(dagger: Dagger, sequence: int) -> bool:
    """Tell whether what began at `sequence` belongs to a dagger that is deleted."""
    return sequence < dagger.create_sequence or (dagger.phase == DELETED and sequence <= dagger.sequence)


def _directories(parent: Path | None) -> list[Path]:
    return [path for path in parent.iterdir() if path.is_dir()] if parent and parent.is_dir() else []
