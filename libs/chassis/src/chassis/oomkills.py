"""Count the processes that the kernel has killed for memory where a process is: in its control group.

A process that is gone left nothing but "killed by SIGKILL", which anybody sends. The kernel counts its own:
in `memory.events` of a group (version 2), or `memory.oom_control` (version 1), and in /proc/vmstat for a
process that is in no group of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_HOST: Final = Path("/proc/vmstat")
_COUNT: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KillCount:
    """Number of processes that the kernel has killed for memory so far."""

    file: Path
    """File that has it."""
    number: int = 0

    def since(self, before: KillCount) -> int:
        """Return how many were killed since another count; 0 where that is of another group."""
        return max(self.number - before.number, 0) if self.file == before.file else 0


class RecentKills:
    """Kills since the look before the last one: a process that is killed for memory takes a while to be gone,
    and earlier ones were of others.
    """

    def __init__(self, read: Callable[[], KillCount]) -> None:
        """read: reads the count now."""
        self._read = read
        self._before = self._last = read()

    def look(self) -> None:
        """Look, as is done now and then while the process lives."""
        self._before, self._last = self._last, self._read()

    def count(self) -> int:
        """Count them now."""
        return self._read().since(self._before)


class OomKills:
    """Counts for one process, also once it is gone: by the group in which it was last."""

    def __init__(self, pid: int, *, groups: Path = _GROUPS, host: Path = _HOST) -> None:
        self._pid, self._groups, self._host = pid, groups, host
        self._file = host

    def read(self) -> KillCount:
        """Read the count now; 0 where nothing counts."""
        self._file = next(filter(Path.is_file, self._candidates()), self._file)
        try:
            match = _COUNT.search(self._file.read_text("ascii"))
        except OSError:
            match = None
        return KillCount(self._file, int(match[1]) if match else 0)

    def _candidates(self) -> list[Path]:
        """List the files that may have the count, best first; none once the process is gone.

        Of a container, its group is where groups are mounted, whatever the kernel calls it outside.
        """
        try:
            lines = Path(f"/proc/{self._pid}/cgroup").read_text("utf-8").splitlines()
        except OSError:
            return []
        files: list[Path] = []
        for _, controllers, group in (line.split(":", 2) for line in lines):
            if controllers in ("", "memory"):
                root = self._groups / controllers
                name = "memory.oom_control" if controllers else "memory.events"
                files += [root / group.strip("/") / name, root / name]
        return [*files, self._host]
