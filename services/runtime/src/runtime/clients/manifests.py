"""Which files are a table's: a manifest for each batch, made once, by whoever comes first.

Workers stage files. The driver makes the manifest of their batch, in which they are named; only then is any
of them seen. Of a batch that is written again, because somebody died or stood still, the first manifest
counts, and what it does not name is discarded. So nothing that was seen once is ever changed or removed here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from runtime.clients.files import Files
from runtime.encode import extent
from runtime.encode.extent import Extent
from runtime.errors import FencedError

COMMITS: Final = "_daggers/commits"
Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as names have it."""

    checkpoint: str
    number: int
    generation: int
    """The launch that writes it."""

    @classmethod
    def of(cls, checkpoint: str, number: int, generation: int) -> Batch:
        """The batch of a checkpoint, whatever that is called."""
        return cls(hashlib.blake2b(checkpoint.encode(), digest_size=8).hexdigest(), number, generation)


@dataclass(frozen=True, slots=True)
class FileName:
    """The last part of a file's name, which says who wrote it: no two attempts have one of the same."""

    dagger: str
    batch: Batch
    part: int
    number: int
    attempt: str

    @classmethod
    def parse(cls, name: str) -> FileName | None:
        """The name behind a text; None where it is of something else."""
        parts = name.split(".")
        if len(parts) != 8 or not all(parts[index].isdigit() for index in (2, 3, 4, 5)):
            return None
        dagger, checkpoint, batch, part, number, generation, attempt, _ = parts
        return cls(dagger, Batch(checkpoint, int(batch), int(generation)), int(part), int(number), attempt)

    def __str__(self) -> str:
        batch = self.batch
        numbers = f"{batch.number:010}.{self.part:04}.{self.number:04}.{batch.generation}"
        return f"{self.dagger}.{batch.checkpoint}.{numbers}.{self.attempt}.parquet"


class Manifests:
    """What one dagger has written to one table."""

    def __init__(self, files: Files, dagger: str) -> None:
        self._files, self._dagger = files, dagger

    def of(self, batch: Batch) -> Manifest | None:
        """The manifest of a batch; None where it is not decided yet."""
        text = self._files.get(self._name(batch))
        return None if text is None else json.loads(text)

    def last_of_others(self, batch: Batch) -> list[Manifest]:
        """The last manifest of each other checkpoint than a batch's: an edit or a removal began that."""
        folder, last = f"{COMMITS}/{self._dagger}", list[Manifest]()
        for other in self._files.names(folder):
            names = self._files.names(f"{folder}/{other}") if other != batch.checkpoint else []
            texts = (self._files.get(f"{folder}/{other}/{name}") for name in reversed(names))
            # One without files is of a batch that nobody wrote to its end.
            last += islice((made for text in texts if text and (made := json.loads(text))["files"]), 1)
        return last

    def commit(self, batch: Batch, said: Manifest) -> None:
        """Make the manifest of a batch, unless there is one, and have its files seen.

        Raises: FencedError where a later launch has written the batch.
        """
        made = self._made(batch, said)
        self._files.put_once(self._name(batch), _text(made))
        held = self.of(batch) or made
        if held["generation"] > batch.generation:
            raise FencedError(batch.generation, held["generation"])
        self._publish(held)
        self.settle(batch)

    def settle(self, after: Batch | None = None) -> None:
        """End what others have left: files of batches that are decided are seen, or discarded.

        `after` is the batch that was committed last: what came before it is decided then, too.
        """
        decided: dict[Batch, Manifest | None] = {}
        for text, staged in self._files.staged(f"{self._dagger}."):
            name = FileName.parse(text)
            if name is None:
                continue
            if name.batch not in decided:
                decided[name.batch] = self._decided(name.batch, after)
            held = decided[name.batch]
            if held is not None and text in {_last(file["path"]) for file in held["files"]}:
                self._publish(held)
            elif held is not None:
                self._files.discard(staged)

    def _decided(self, batch: Batch, after: Batch | None) -> Manifest | None:
        """The manifest of a batch of which something is staged; made without files where nobody will make it.

        Batches of a later launch are its own business, and what comes in this checkpoint is written again.
        """
        held = self.of(batch)
        if held is not None or after is None or batch.generation > after.generation:
            return held
        if batch.checkpoint == after.checkpoint and batch.number > after.number:
            return None
        nothing = summed([{"schema": 0, "windows_to": None, "offsets": {}, "files": ()}])
        ended = replace(batch, generation=after.generation)
        self._files.put_once(self._name(batch), _text(self._made(ended, nothing)))
        return self.of(batch)

    def _made(self, batch: Batch, said: Manifest) -> Manifest:
        about = {"checkpoint": batch.checkpoint, "batch": batch.number, "generation": batch.generation}
        return {"version": 1, "dagger": self._dagger, **about, **said}

    def _publish(self, held: Manifest) -> None:
        for file in held["files"]:
            self._files.publish(file["path"], file["staged"])

    def _name(self, batch: Batch) -> str:
        return f"{COMMITS}/{self._dagger}/{batch.checkpoint}/{batch.number:010}.json"


def summed(parts: Iterable[Manifest]) -> Manifest:
    """What several parts of a batch say of their files, together."""
    listed = list(parts)
    files = sorted((file for part in listed for file in part["files"]), key=lambda file: str(file["path"]))
    reached = (Extent(windows_to=part["windows_to"], offsets=part["offsets"]) for part in listed)
    return {
        "schema": max(part["schema"] for part in listed),
        "rows": sum(file["rows"] for file in files),
        "bytes": sum(file["bytes"] for file in files),
        "from": min((file["from"] for file in files), default=None),
        "to": max((file["to"] for file in files), default=None),
        **extent.united(reached),
        "files": files,
    }


def _text(told: Manifest) -> bytes:
    return json.dumps(told, indent=1).encode()


def _last(path: str) -> str:
    return path.rpartition("/")[2]
