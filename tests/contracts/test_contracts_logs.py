"""A log that tests make fail is a log while they do not."""

import pytest
from tests.contracts.logs import TroubledLog

from eventlog.testing import LogContract


class TestTroubledLog(LogContract):
    @pytest.fixture
    def log(self) -> TroubledLog:
        return TroubledLog()

    async def write_raw(self, log: TroubledLog, headers: list[tuple[str, bytes]], value: bytes) -> None:
        log.place(headers, value)
