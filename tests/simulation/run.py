"""`python -m tests.simulation.run SEEDS [FIRST]`: lives of a small fleet, from seeds.

Last line `seeds k..k+n-1: N faults, 0 violations`, before it the faults by kind. A violation prints its seed
and the last events, and the exit code is 1; `run 1 SEED` is that life again, step by step.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from tests.simulation.life import FAULTY_S, simulate
from tests.simulation.witness import Violation


def main(seeds: int, first: int = 1) -> int:
    """Live through seeds and print what they bore; answers the exit code."""
    faults: Counter[str] = Counter()
    violations = 0
    for seed in range(first, first + seeds):
        try:
            faults += live(seed)
        except Violation as error:
            violations += 1
            sys.stdout.write(f"{error}\n")
            sys.stdout.flush()
    for kind, count in sorted(faults.items()):
        sys.stdout.write(f"{kind}: {count}\n")
    last = first + seeds - 1
    sys.stdout.write(f"seeds {first}..{last}: {faults.total()} faults, {violations} violations\n")
    return 1 if violations else 0


@contextmanager
def quiet() -> Iterator[None]:
    """The services log nothing inside: they have thousands of lives to tell of."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    libraries = logging.getLogger("daggers")
    level = libraries.level
    libraries.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        libraries.setLevel(level)
        structlog.configure(**before)


def live(seed: int, *, faulty_s: float = FAULTY_S) -> Counter[str]:
    """One life in a directory of its own; the faults it bore. Raises: Violation."""
    with quiet(), tempfile.TemporaryDirectory() as state:
        return simulate(seed, Path(state), faulty_s=faulty_s)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
