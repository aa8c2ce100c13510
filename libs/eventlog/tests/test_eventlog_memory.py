from __future__ import annotations

import pytest

from eventlog.memory import MemoryLog
from eventlog.testing import LogContract


class TestMemoryLog(LogContract):
    @pytest.fixture
    async def log(self) -> MemoryLog:
        return MemoryLog()

    async def write_raw(self, log: MemoryLog, headers: list[tuple[str, bytes]], value: bytes) -> None:
        log.place(headers, value)
