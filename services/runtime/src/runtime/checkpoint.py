"""Which checkpoint a launch uses, and from where a new one starts.

A checkpoint's directory is named after the fingerprint of the plan whose state it holds: the same fingerprint
goes on where it stopped, another one begins anew, far enough back that the windows that were open at the edit
are counted whole. The old ones are kept until the new one has committed a batch.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from runtime.hadoop import HadoopPath

Place: TypeAlias = Path | HadoopPath
_FOLDER = "checkpoints"
_SAFE = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of one launch."""

    path: Place
    """Its directory; it may not exist yet."""
    start: datetime | None
    """Where to start instead of the streams' own positions: records whose Kafka time is not before this.

    For streams whose start is not decided yet: a driver may have died when it was for some of them.
    """
    outdated: tuple[Place, ...]
    """Checkpoints of other fingerprints, to remove once this one has committed a batch."""

    @property
    def committed(self) -> bool:
        """Whether a batch was ever committed here."""
        return _last_batch(self.path / "commits") is not None

    def forget_outdated(self) -> None:
        """Remove the checkpoints of other fingerprints."""
        for path in self.outdated:
            with suppress(OSError):
                path.remove() if isinstance(path, HadoopPath) else shutil.rmtree(path)


def choose(root: Place, fingerprint: str, horizon: timedelta) -> Checkpoint:
    """The checkpoint of a plan with this fingerprint, which needs a record for this long.

    A new one starts where the newest other checkpoint stood, less the horizon: windows that were closed there
    were emitted, and what came after belonged to windows that were still open.
    """
    folder = root / _FOLDER
    path = folder / _SAFE.sub("_", fingerprint)
    others = tuple(entry for entry in _entries(folder) if entry.is_dir() and entry.name != path.name)
    stands = [stand for other in others if (stand := _stand(other))]
    start = max(stands)[1] - horizon if stands else None
    return Checkpoint(path, start, others)


def _stand(checkpoint: Place) -> tuple[float, datetime] | None:
    """When a checkpoint last committed, and how far it had come; None before the first commit.

    How far: the watermark that the last committed batch left behind, or, without one (no row had an event
    time yet), when that batch began.
    """
    commit = _last_batch(checkpoint / "commits")
    if commit is None:
        return None
    offsets = checkpoint / "offsets" / commit.name
    millis = _number(commit, "nextBatchWatermarkMs") or _number(offsets, "batchTimestampMs")
    when = commit.modified() if isinstance(commit, HadoopPath) else commit.stat().st_mtime
    return (when, datetime.fromtimestamp(millis / 1000, UTC)) if millis else None


def _number(entry: Place, key: str) -> int:
    """A number in the metadata of one of Spark's log files: its first line that is a JSON object."""
    for line in entry.read_text("utf-8").splitlines():
        if line.startswith("{"):
            return int(json.loads(line).get(key, 0))
    return 0


def _last_batch(log: Place) -> Place | None:
    """The newest file of one of Spark's logs: files named by the number of their batch."""
    batches = [entry for entry in _entries(log) if entry.name.isdigit()]
    return max(batches, key=lambda entry: int(entry.name), default=None)


def _entries(folder: Place) -> list[Place]:
    """What is in a directory, sorted; nothing when there is none."""
    return sorted(folder.iterdir()) if folder.is_dir() else []
