"""Store a few records of a preview that could not become rows: in files, for workers cannot talk."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final
from uuid import uuid4

from daggers.v1 import telemetry_pb2

MOST: Final = 3
"""Most records of each reason."""
_FOLDER: Final = "set-aside"
_VALUE_BYTES: Final = 16 * 1024


class Examples:
    """Takes records in place of `clients.quarantine.Quarantine`, and keeps the first few."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self._counts: Counter[str] = Counter()

    def put(self, record: telemetry_pb2.Quarantined, identity: str) -> int:
        """Store a record, if there are not enough of its reason; return its size."""
        del identity
        self._counts[record.reason] += 1
        if self._counts[record.reason] <= MOST:
            self._folder.mkdir(exist_ok=True)
            record.value, record.key = record.value[:_VALUE_BYTES], record.key[:_VALUE_BYTES]
            (self._folder / uuid4().hex).write_bytes(record.SerializeToString())
        return record.ByteSize()

    def flush(self) -> None:
        """Do nothing: no record waits."""


def read_examples(folder: Path) -> list[telemetry_pb2.Quarantined]:
    """Read the first records of each reason, by topic, partition and offset."""
    files = sorted((folder / _FOLDER).glob("*"))
    records = [telemetry_pb2.Quarantined.FromString(file.read_bytes()) for file in files]
    records.sort(key=lambda record: (record.reason, record.topic, record.partition, record.offset))
    counts: Counter[str] = Counter()
    few = []
    for message in records:
        counts[message.reason] += 1
        if counts[message.reason] <= MOST:
            few.append(message)
    return few
