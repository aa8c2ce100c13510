"""The clock of the stack's processes, which jumps where libfaketime is installed. Monotonic time goes on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# Where distributions put it; the one for programs of many threads.
PLACES = ("lib*/*/faketime", "lib*/faketime", "local/lib/faketime")
LIBRARY = "libfaketimeMT.so.1"


class Clock:
    """What the stack's processes believe the time to be, as an offset from the true time."""

    def __init__(self, file: Path, root: Path = Path("/usr")) -> None:
        self._file = file
        self._library = next((found for place in PLACES for found in root.glob(f"{place}/{LIBRARY}")), None)
        self._set(0)

    @property
    def possible(self) -> bool:
        """Whether libfaketime is there."""
        return self._library is not None

    def environment(self) -> Mapping[str, str]:
        """What a process is started with to have this clock."""
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    @contextmanager
    def jumped(self, seconds: float) -> Iterator[None]:
        """Forwards, or backwards when negative; and back again."""
        self._set(seconds)
        try:
            yield
        finally:
            self._set(0)

    def _set(self, seconds: float) -> None:
        self._file.write_text(f"{seconds:+.0f}s\n")
