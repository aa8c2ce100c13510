"""`python -m runtime.replay`: one attempt of a replay, without a JVM."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Final

from chassis.gc_tuning import tune_gc


class Without(MetaPathFinder):
    """Packages as if they were not installed. PyArrow and structlog load these where they are, and nothing
    that is done here uses them: 50 MiB, and half a second of a processor.
    """

    NAMES: Final = ("pandas", "rich")

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raises: ModuleNotFoundError for one of them; whoever asks goes on without."""
        del path, target
        if fullname in self.NAMES:
            raise ModuleNotFoundError(f"a replay goes without {fullname}", name=fullname)


if __name__ == "__main__":
    sys.meta_path.insert(0, Without())
    from runtime.replay.main import main

    tune_gc(100_000)  # what is remembered of each record stays, and was looked at a thousand times
    sys.exit(main(sys.argv[1:]))
