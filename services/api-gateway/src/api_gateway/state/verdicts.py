"""What the fold made of each record: why it is not applied, and the version that it gave.

They are remembered as long as the log stands, unlike ids: else whoever watches a log from its beginning would
have it folded anew, each for itself. A record takes 8 bytes here, one that was refused its reason, too.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from fleet import Applied
from fleet.snapshot import encoding


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was made of one record."""

    refused: str = ""
    """Why it is not applied; empty when it is."""
    version: int = 0
    """Of what an accepted request is about; 0: it was none."""


def judged(applied: Applied) -> Verdict:
    """What applying a record came to."""
    return Verdict(applied.refused, applied.answer.version if applied.answer else 0)


class Verdicts:
    """Of every record from the first of the log on."""

    def __init__(self) -> None:
        self._versions = array("q")
        self._refused: dict[int, str] = {}

    def add(self, sequence: int, verdict: Verdict) -> None:
        """Of the record at `sequence`, which is newer than all others."""
        self._versions.frombytes(bytes(8 * (sequence - len(self._versions))))
        self._versions.append(verdict.version)
        if verdict.refused:
            self._refused[sequence] = verdict.refused

    def of(self, sequence: int) -> Verdict:
        """Of the record at `sequence`."""
        version = self._versions[sequence] if sequence < len(self._versions) else 0
        return Verdict(self._refused.get(sequence, ""), version)

    def clear(self) -> None:
        """None is known."""
        self._versions, self._refused = array("q"), {}

    def newest_first(self, first: int) -> Iterator[tuple[int, tuple[int, str]]]:
        """Those that say anything, down to the sequence `first`: each, as `encoding.texts` takes it."""
        for sequence in range(len(self._versions) - 1, first - 1, -1):
            version, refused = self._versions[sequence], self._refused.get(sequence, "")
            if version or refused:
                yield sequence, (sequence, f"{version} {refused}")

    def read(self, block: bytes) -> None:
        """Add those of a block that `encoding.texts` made. Raises: DecodeError, ValueError."""
        for sequence, text in encoding.read_texts(block):
            version, _, refused = text.partition(" ")
            self.add(sequence, Verdict(refused, int(version)))
