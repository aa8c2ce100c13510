"""`python -P -m scheduler.host.preview_limits -- COMMAND…`: becomes the command, which may do little harm.

A preview stands back behind what runs beside it, goes first when memory is short, and fills no disk.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

FILE_BYTES: Final = 1024**3
"""The largest file that it may write."""
_NICE: Final = 5


def main(words: list[str]) -> int:
    """Become the command; return only for a command that is not there."""
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    try:
        os.execv(words[1], words[1:])  # noqa: S606 - the command line of a driver, which we have built
    except OSError as error:
        sys.stderr.write(f"{words[1]}: {error.strerror}\n")
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
