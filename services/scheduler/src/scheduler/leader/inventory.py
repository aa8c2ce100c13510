"""Finds out what this host lacks of what daggers need: files, Spark masters, users of teams, the C reader."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import master
from fleet import Fleet
from fleet.decide.requirements import (
    FILE,
    MASTER,
    READER,
    USERS,
    format_file,
    format_master,
    format_user,
    list_registered_words,
    list_words,
)
from fleet.fold.phases import DELETED

MOST: Final = 1_000
"""Words that a host registers at most: a record has an end."""
_ANSWERS_WITHIN_S: Final = 5.0
_CONNECTS_WITHIN_S: Final = 3.0
_NAME_WORDS: Final = ("cluster", "stream", "sink", "secret", "reference")
"""Kinds of the registered objects by which `list_words` finds files and masters."""
_READER_FILES: Final = "source/reader/native_reader-*.so"


def is_readable(path: str) -> bool:
    """Tell whether a file is there for this process to read. May block."""
    return os.access(path, os.R_OK)


async def reaches_master(url: str) -> bool:
    """Tell whether any of the addresses of a standalone Spark master accepts a connection."""
    parsed = master.parse(url)
    for server in parsed.servers if parsed is not None else ():
        host, _, port = server.rpartition(":")
        with suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(_CONNECTS_WITHIN_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.close()
            return True
    return False


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
        reaches_master: Callable[[str], Awaitable[bool]] = reaches_master,
    ) -> None:
        """has_user: whether drivers of a team run as a user of their own; "" for a team that is not named.

        reader: whether the C reader is there. is_readable: whether a file is; may block. reaches_master:
        whether a Spark master is reached, by its URL.
        """
        self._fleet, self._has_user, self._reader, self._is_readable = fleet, has_user, reader, is_readable
        self._reaches_master = reaches_master
        self._looking: asyncio.Task[list[str]] | None = None
        self._words: dict[str, tuple[spec_pb2.DaggerSpec, list[str]]] = {}
        """Specification of each dagger, and the words that were listed for it, by the dagger's name."""
        self._registered: Mapping[str, Mapping[str, int]] = {}
        """Sequence of all that was registered when they were found, by kind and name."""
        self._registered_words: list[str] = []

    def list_words(self) -> list[str]:
        """List the words for what daggers need which are not deleted, and for the files of all that is
        registered. To be called where the fold is read.

        They are only looked for where a specification has changed, or what is registered.
        """
        fleet, before = self._fleet, self._words
        registered = {
            kind: {name: entry.sequence for name, entry in fleet.catalogue.entries(kind).items()}
            for kind in _NAME_WORDS
        }
        if registered != self._registered:
            self._registered, before = registered, {}
            self._registered_words = list_registered_words(fleet)
        self._words = {
            name: entry
            if (entry := before.get(name)) is not None and entry[0] is dagger.spec
            else (dagger.spec, list_words(fleet, dagger.spec))
            for name, dagger in fleet.daggers.items()
            if dagger.phase != DELETED
        }
        return sorted({*self._registered_words}.union(*(words for _, words in self._words.values())))

    async def look_for(self, words: Collection[str]) -> list[str] | None:
        """List the words of files that are not there and of Spark masters that are not reached, sorted; None
        where a file system does not answer in time.

        One that hangs is asked by no second thread.
        """
        if self._looking is not None and not self._looking.done():
            return None
        files = [word.removeprefix(FILE) for word in words if word.startswith(FILE)]
        masters = [word.removeprefix(MASTER) for word in words if word.startswith(MASTER)]
        # Its own: while masters are asked, another call may begin to look for other files.
        looking = self._looking = asyncio.create_task(asyncio.to_thread(self.list_missing, files))
        reached = await asyncio.gather(*map(self._reaches_master, masters))
        done, _ = await asyncio.wait([looking], timeout=_ANSWERS_WITHIN_S)
        if not done:
            return None
        unreached = [url for url, is_reached in zip(masters, reached, strict=True) if not is_reached]
        return sorted([*map(format_file, looking.result()), *map(format_master, unreached)])

    def list_missing(self, paths: Iterable[str]) -> list[str]:
        """List the paths that are not there. May block."""
        return [path for path in paths if not self._is_readable(path)]

    async def find_missing(self, spec: spec_pb2.DaggerSpec) -> list[str]:
        """List the words of what a launch needs and has not here; none where nobody answers."""
        return await self.look_for(list_words(self._fleet, spec)) or []

    def format_lacks(self, missing: Iterable[str]) -> list[str]:
        """List what the host lacks in the words of a registration; missing: words of `look_for`."""
        users = [team for team in sorted(self._fleet.catalogue.teams) if not self._has_user(team)]
        return [
            *([] if self._reader else [READER]),
            *([USERS] if not self._any_user() else map(format_user, users)),
            *missing,
        ][:MOST]

    def _any_user(self) -> bool:
        return self._has_user("") or any(map(self._has_user, self._fleet.catalogue.teams))
