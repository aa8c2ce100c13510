"""The files of a launch's directory, shared by scheduler and driver (docs/contracts.md: who writes what)."""

from __future__ import annotations

from typing import Final

SPEC: Final = "spec.pb"
LOG: Final = "driver.log"
OLDER_LOG: Final = "driver.log.1"
DRIVER: Final = "driver.json"
STOP: Final = "stop"
EXIT: Final = "exit.json"
EXIT_CODE: Final = "exit-code"
TEMPORARY: Final = "tmp"
