"""The clock of the stack's processes, which jumps where libfaketime can make it. Monotonic time goes on."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# Where distributions put it; the one for programs of many threads.
FOLDERS = ("lib*/*/faketime", "lib*/faketime", "local/lib/faketime")
LIBRARY = "libfaketimeMT.so.1"
TRIAL = "import time; time.sleep(0.01); print(time.time(), time.monotonic())"
TRIAL_S = -86_400.0
SLACK_S = 60.0


class Clock:
    """What the stack's processes believe the time to be, as an offset from the true time.

    impossible: why it cannot jump here; empty when it can.
    """

    def __init__(self, file: Path, root: Path = Path("/usr")) -> None:
        self._file = file
        self._library = next(
            (library for folder in FOLDERS for library in root.glob(f"{folder}/{LIBRARY}")), None
        )
        self.impossible = self._tried()
        self._set(0)

    def environment(self) -> Mapping[str, str]:
        """What a process is started with to have this clock."""
        return {} if self.impossible else self._preloaded()

    @contextmanager
    def jumped(self, seconds: float) -> Iterator[None]:
        """Forwards, or backwards when negative; and back again."""
        self._set(seconds)
        try:
            yield
        finally:
            self._set(0)

    def _preloaded(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def _tried(self) -> str:
        """Why a Python process cannot live with this clock: 0.9.10 breaks its time.sleep, for one."""
        if self._library is None:
            return "libfaketime is not installed"
        self._set(TRIAL_S)
        done = subprocess.run(
            [sys.executable, "-c", TRIAL],
            env=self._preloaded(), capture_output=True, text=True, check=False, timeout=SLACK_S,
        )  # fmt: skip
        if done.returncode:
            return f"under {self._library} Python fails: {done.stderr.strip().splitlines()[-1]}"
        now, monotonic = map(float, done.stdout.split())
        if abs(now - time.time() - TRIAL_S) > SLACK_S or abs(monotonic - time.monotonic()) > SLACK_S:
            return f"{self._library} does not move the clock, or moves the monotonic one, too"
        return ""

    def _set(self, seconds: float) -> None:
        self._file.write_text(f"{seconds:+.0f}s\n")
