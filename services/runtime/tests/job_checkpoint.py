"""Helpers of test_job_checkpoint.py and of its neighbours."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runtime.source.offsets import Offsets, Partition

MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEGUN = Offsets({"t": "id-t"}, {Partition("t", 0): 5}, complete_from=7)


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def checkpoint(root: Path, fingerprint: str, *, batches: int, watermark: datetime | None) -> Path:
    """A checkpoint as Spark and a reader leave it: batch n read up to offset 10 * n, the last closed windows
    up to this watermark."""
    path = root / "checkpoints" / fingerprint
    for log in ("commits", "offsets", "source-start"):
        (path / log).mkdir(parents=True)
    (path / "source-start" / "s0.json").write_text(json.dumps(BEGUN.as_json()))
    (path / "source-start" / ".s0.json.crc").write_bytes(b"\xdf{")
    for batch in range(batches):
        end = json.dumps(BEGUN.move_to({Partition("t", 0): 10 * batch}).as_json())
        mark = 0 if watermark is None or batch < batches - 1 else millis(watermark)
        (path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":{mark}}}\n{end}\n-')
        (path / "commits" / str(batch)).write_text(f'v1\n{{"nextBatchWatermarkMs":{mark + 60_000}}}')
        (path / "commits" / f".{batch}.crc").write_text("")
    return path
