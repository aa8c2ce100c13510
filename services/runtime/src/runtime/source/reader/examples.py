"""A few records of a preview that could not become rows: files in its folder, for workers cannot talk."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final
from uuid import uuid4

from daggers.v1 import telemetry_pb2

MOST: Final = 3
"""Of each reason."""
_FOLDER: Final = "set-aside"
_VALUE_BYTES: Final = 16 * 1024


class Examples:
    """Takes records in place of `clients.quarantine.Quarantine`, and keeps the first few."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self._taken: Counter[str] = Counter()

    def put(self, record: telemetry_pb2.Quarantined, identity: str) -> int:
        """Keep a record, if there are not enough of its reason; its size."""
        del identity
        self._taken[record.reason] += 1
        if self._taken[record.reason] <= MOST:
            self._folder.mkdir(exist_ok=True)
            record.value, record.key = record.value[:_VALUE_BYTES], record.key[:_VALUE_BYTES]
            (self._folder / uuid4().hex).write_bytes(record.SerializeToString())
        return record.ByteSize()

    def flush(self) -> None:
        """Nothing waits."""


def kept(folder: Path) -> list[telemetry_pb2.Quarantined]:
    """The first records of each reason, by where they stood."""
    files = sorted((folder / _FOLDER).glob("*"))
    records = [telemetry_pb2.Quarantined.FromString(file.read_bytes()) for file in files]
    records.sort(key=lambda record: (record.reason, record.topic, record.partition, record.offset))
    taken: Counter[str] = Counter()
    few = []
    for message in records:
        taken[message.reason] += 1
        if taken[message.reason] <= MOST:
            few.append(message)
    return few
