"""`python -m tests.nights.run SEEDS [FIRST]`: simulated nights of on-call, from seeds.

Last line `seeds k..k+n-1: N faults, 0 violations`, before it the faults by kind. A night that violates an
invariant prints its seed and the invariants, and the exit code is 1.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Final

from tests.nights.night import OncallNight

_PROGRESS_S: Final = 30.0


def main(seeds: int, first: int = 1) -> int:
    """Let nights pass and print what came of them; return the exit code."""
    faults, violations, printed = Counter[str](), 0, time.monotonic()
    for seed in range(first, first + seeds):
        night = OncallNight(seed)
        found = night.run()
        faults += night.faults
        if found:
            violations += 1
            sys.stdout.write("\n  ".join((f"seed {seed}:", *found)) + "\n")
        if time.monotonic() - printed > _PROGRESS_S:
            printed = time.monotonic()
            sys.stdout.write(f"... seed {seed}, {faults.total():,} faults, {violations} violations\n")
        sys.stdout.flush()
    for kind, count in sorted(faults.items()):
        sys.stdout.write(f"{kind}: {count}\n")
    last = first + seeds - 1
    sys.stdout.write(f"seeds {first}..{last}: {faults.total()} faults, {violations} violations\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
