"""The C half of the drivers' reader; `runtime.source.reader.native_library` builds it and says how."""

import subprocess
import sys

from cli.environment import environment
from cli.output.progress import Steps

_MODULE = "runtime.source.reader.native_library"
_TIMEOUT_S = 180


def build(steps: Steps) -> None:
    """Build it, unless it is there. Where it cannot be built drivers read without it: that is a note."""
    done = subprocess.run(
        [sys.executable, "-m", _MODULE],
        capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, env=environment(),
    )  # fmt: skip
    if done.returncode:
        why = (done.stdout or done.stderr).strip()
        steps.note(f"drivers read records by Python, which takes more of the processor: {why}")
