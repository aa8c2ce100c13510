"""Finds out what this host lacks of what daggers need: files, users of teams, the C reader."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from daggers.v1 import spec_pb2

from fleet import Fleet
from fleet.decide.requirements import READER, USERS, find_files, format_file, format_user
from fleet.fold.phases import DELETED

MOST: Final = 1_000
"""Words that a host registers at most: a record has an end."""
_ANSWERS_WITHIN_S: Final = 5.0
_NAME_FILES: Final = ("cluster", "stream", "sink", "secret", "reference")
"""Kinds of the registered objects by which `find_files` finds paths."""
_READER_FILES: Final = "source/reader/native_reader-*.so"


def is_readable(path: str) -> bool:
    """Tell whether a file is there for this process to read. May block."""
    return os.access(path, os.R_OK)


def has_reader(runtime: Path) -> bool:
    """Tell whether the C reader was built in the folder of the runtime."""
    return any(runtime.glob(_READER_FILES))


class Inventory:
    """Finds out what one host lacks, by the log and by its own files."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        has_user: Callable[[str], bool],
        reader: bool,
        is_readable: Callable[[str], bool] = is_readable,
    ) -> None:
        """has_user: whether drivers of a team run as a user of their own; "" for a team that is not named.

        reader: whether the C reader is there. is_readable: whether a file is; may block.
        """
        self._fleet, self._has_user, self._reader, self._is_readable = fleet, has_user, reader, is_readable
        self._looking: asyncio.Task[list[str]] | None = None
        self._files: dict[str, tuple[spec_pb2.DaggerSpec, frozenset[str]]] = {}
        """Specification of each dagger, and the paths that were found for it, by the dagger's name."""
        self._registered: Mapping[str, Mapping[str, int]] = {}
        """Sequence of all that was registered when they were found, by kind and name."""

    def list_files(self) -> list[str]:
        """List the paths that daggers read which are not deleted. To be called where the fold is read.

        Paths are only looked for where a specification has changed, or what is registered.
        """
        fleet, before = self._fleet, self._files
        registered = {
            kind: {name: entry.sequence for name, entry in fleet.catalogue.entries(kind).items()}
            for kind in _NAME_FILES
        }
        if registered != self._registered:
            self._registered, before = registered, {}
        self._files = {
            name: entry
            if (entry := before.get(name)) is not None and entry[0] is dagger.spec
            else (dagger.spec, find_files(fleet, dagger.spec))
            for name, dagger in fleet.daggers.items()
            if dagger.phase != DELETED
        }
        return sorted(set[str]().union(*(files for _, files in self._files.values())))

    async def look_for(self, paths: Iterable[str]) -> list[str] | None:
        """List the paths that are not there; None where a file system does not answer in time.

        One that hangs is asked by no second thread.
        """
        if self._looking is not None and not self._looking.done():
            return None
        self._looking = asyncio.create_task(asyncio.to_thread(self.list_missing, tuple(paths)))
        done, _ = await asyncio.wait([self._looking], timeout=_ANSWERS_WITHIN_S)
        return self._looking.result() if done else None

    def list_missing(self, paths: Iterable[str]) -> list[str]:
        """List the paths that are not there. May block."""
        return [path for path in paths if not self._is_readable(path)]

    async def find_missing(self, spec: spec_pb2.DaggerSpec) -> list[str]:
        """List the files that a dagger reads and that are not there, as words; none where nobody answers."""
        missing = await self.look_for(sorted(find_files(self._fleet, spec)))
        return [format_file(path) for path in missing or ()]

    def format_lacks(self, missing: Iterable[str]) -> list[str]:
        """Format what the host lacks in the words of a registration; missing: paths."""
        users = [team for team in sorted(self._fleet.catalogue.teams) if not self._has_user(team)]
        return [
            *([] if self._reader else [READER]),
            *([USERS] if not self._any_user() else map(format_user, users)),
            *map(format_file, missing),
        ][:MOST]

    def _any_user(self) -> bool:
        return self._has_user("") or any(map(self._has_user, self._fleet.catalogue.teams))
