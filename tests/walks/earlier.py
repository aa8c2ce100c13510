"""An earlier version of the platform, built from the project's own history, beside this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.documents.pages import ROOT

BEFORE_MENDING: Final = "36c031752a26470d9d44d2c2d791fe7c2766b3ad"
"""The first slice as it was before issue 13, Mending, changed what drivers count, store and say."""
BEFORE_TEAMS: Final = "ab54446a16eeaf12f1051cc10b86a0517778814f"
"""The last version that knew no teams."""
BEFORE_EVENT_TIME: Final = "392023205e03ed9139cb4c6a88aca4838c183a12"
"""The last version in which event time of a stream was the maximum over its partitions."""
TOOLS: Final = Path(sys.prefix) / "share" / "daggers"


def built(commit: str, folder: Path) -> Path:
    """The `daggers` command of a commit: its tree in `folder`, with an environment by its own lock.

    Kafka and InfluxDB are those of this version; Spark's prepared home is made anew. Skips where the history
    of this clone does not go back so far.
    """
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    )
    if known.returncode != 0:
        pytest.skip(f"this clone has no commit {commit[:7]}: its history is shallow (git fetch --unshallow)")
    folder.mkdir()
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True, timeout=60)
    subprocess.run(["tar", "-x"], cwd=folder, input=packed.stdout, check=True, timeout=60)
    made = subprocess.run(
        ["make", "venv"], cwd=folder, capture_output=True, text=True, check=False, timeout=900
    )
    assert made.returncode == 0, made.stdout + made.stderr
    (tools := folder / ".venv" / "share" / "daggers").mkdir(parents=True)
    for tool in TOOLS.iterdir():
        if not tool.name.startswith((".", "spark-")):  # a lock; and what holds paths of its environment
            (tools / tool.name).symlink_to(tool)
    daggers = folder / ".venv" / "bin" / "daggers"
    subprocess.run([daggers, "local", "setup"], capture_output=True, check=True, timeout=900)
    return daggers
