"""Remember the verdict on each record: why it was not applied, and the version that it gave.

Verdicts are remembered as long as the log stands, unlike ids of requests: a watch from the log's beginning
would else need a fold of its own. A record takes 8 bytes here, and a refused one its reason.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from fleet import ApplyResult
from fleet.snapshot import encoding


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """The fold's verdict on one record."""

    refused: str = ""
    """Reason why it was not applied; empty where it was."""
    version: int = 0
    """Version of the resource that an accepted request changed; 0 for any other record."""


def verdict_of(applied: ApplyResult) -> RecordVerdict:
    """Derive the verdict from the result of applying a record."""
    return RecordVerdict(applied.refused, applied.answer.version if applied.answer else 0)


class Verdicts:
    """The verdicts on all records from the first of the log on."""

    def __init__(self) -> None:
        self._versions = array("q")
        self._refused: dict[int, str] = {}

    def add(self, sequence: int, verdict: RecordVerdict) -> None:
        """Add the verdict on the record at `sequence`, which is newer than all others."""
        self._versions.frombytes(bytes(8 * (sequence - len(self._versions))))
        self._versions.append(verdict.version)
        if verdict.refused:
            self._refused[sequence] = verdict.refused

    def of(self, sequence: int) -> RecordVerdict:
        """Return the verdict on the record at `sequence`."""
        version = self._versions[sequence] if sequence < len(self._versions) else 0
        return RecordVerdict(self._refused.get(sequence, ""), version)

    def clear(self) -> None:
        """Drop all verdicts."""
        self._versions, self._refused = array("q"), {}

    def newest_first(self, first: int) -> Iterator[tuple[int, tuple[int, str]]]:
        """Yield the verdicts with content, newest first down to the sequence `first`, as `encoding.texts`
        takes them.
        """
        for sequence in range(len(self._versions) - 1, first - 1, -1):
            version, refused = self._versions[sequence], self._refused.get(sequence, "")
            if version or refused:
                yield sequence, (sequence, f"{version} {refused}")

    def read(self, block: bytes) -> None:
        """Add the verdicts of a block that `encoding.texts` made. Raises: DecodeError, ValueError."""
        for sequence, text in encoding.read_texts(block):
            version, _, refused = text.partition(" ")
            self.add(sequence, RecordVerdict(refused, int(version)))
