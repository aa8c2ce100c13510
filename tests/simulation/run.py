"""`python -m tests.simulation.run SEEDS [FIRST]`: lives of a small fleet, from seeds.

Last line `seeds k..k+n-1: N faults, 0 violations`, before it the faults by kind. A violation prints its seed
and the last events, and the exit code is 1; `run 1 SEED` is that life again, step by step.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import structlog
from tests.simulation.life import FAULTY_S, Life, lived
from tests.simulation.witness import Violation

_CHUNK = 20


def main(seeds: int, first: int = 1, *, processes: int = 1) -> int:
    """Live through seeds and print what they bore; answers the exit code."""
    faults: Counter[str] = Counter()
    violations = 0
    for borne, violation in _lives(range(first, first + seeds), processes):
        faults += borne
        if violation:
            violations += 1
            sys.stdout.write(f"{violation}\n")
            sys.stdout.flush()
    for kind, count in sorted(faults.items()):
        sys.stdout.write(f"{kind}: {count}\n")
    last = first + seeds - 1
    sys.stdout.write(f"seeds {first}..{last}: {faults.total()} faults, {violations} violations\n")
    return 1 if violations else 0


def _lives(seeds: Iterable[int], processes: int) -> Iterator[tuple[Counter[str], str]]:
    """What each life bore, and how it was violated, in the order of the seeds."""
    if processes == 1:
        yield from map(_told, seeds)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_told, seeds, chunksize=_CHUNK)


def _told(seed: int) -> tuple[Counter[str], str]:
    try:
        return live(seed), ""
    except Violation as error:
        return Counter(), str(error)


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


def live(seed: int, *, faulty_s: float = FAULTY_S, kind: type[Life] = Life) -> Counter[str]:
    """Live a life of this kind in a directory of its own; the faults it bore. Raises: Violation."""
    with quiet(), tempfile.TemporaryDirectory() as state:
        return lived(kind, seed, Path(state), faulty_s=faulty_s).world.faults


if __name__ == "__main__":
    SEEDS, *FIRST = map(int, sys.argv[1:])
    sys.exit(main(SEEDS, *FIRST, processes=min(os.cpu_count() or 1, -(-SEEDS // _CHUNK))))
