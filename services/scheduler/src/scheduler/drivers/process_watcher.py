"""Wakes the loop the moment a process ends, also one that is not our child."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


class ProcessWatcher:
    """Calls `ended(name)` once when the process watched under that name has ended."""

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._ended = ended
        self._watched: dict[str, tuple[int, int]] = {}

    def watch(self, name: str, pid: int) -> None:
        """Watch a process under this name, instead of another one; watching it twice is once."""
        if self._watched.get(name, (0, 0))[0] == pid:
            return
        self.forget(name)
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:  # it has ended, or the kernel has none to spare: the next tick sees it
            return
        self._watched[name] = (pid, descriptor)
        asyncio.get_running_loop().add_reader(descriptor, self._fire, name)

    def forget(self, name: str) -> None:
        """Watch nothing under this name any more."""
        if name in self._watched:
            _, descriptor = self._watched.pop(name)
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Watch nothing any more."""
        for name in list(self._watched):
            self.forget(name)

    def _fire(self, name: str) -> None:
        self.forget(name)
        self._ended(name)
