"""Commit the files of a table by manifests: one for each batch, written once, by the first writer.

Workers stage files. The driver writes the manifest of their batch, which names them; only then they become
visible. If a batch is written again, after a crash or a standstill, the first manifest counts, and files that
it does not name are discarded. So no visible file is ever changed or removed here.
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
    """A batch as names of files and manifests identify it."""

    checkpoint: str
    number: int
    generation: int
    """Generation of the launch that writes it."""

    @classmethod
    def of(cls, checkpoint: str, number: int, generation: int) -> Batch:
        """Build the batch; the checkpoint's name is hashed, so that it fits file names."""
        return cls(hashlib.blake2b(checkpoint.encode(), digest_size=8).hexdigest(), number, generation)


@dataclass(frozen=True, slots=True)
class FileName:
    """Last part of a file's name, which identifies its writer: each attempt has its own names."""

    dagger: str
    batch: Batch
    part: int
    number: int
    attempt: str

    @classmethod
    def parse(cls, name: str) -> FileName | None:
        """Parse a name; None where it is none of ours."""
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
    """Manifests of one dagger in one table."""

    def __init__(self, files: Files, dagger: str) -> None:
        self._files, self._dagger = files, dagger

    def of(self, batch: Batch) -> Manifest | None:
        """Read the manifest of a batch; None where the batch is not committed."""
        text = self._files.get(self._name(batch))
        return None if text is None else json.loads(text)

    def last_of_others(self, batch: Batch) -> list[Manifest]:
        """Read the last manifest of every other checkpoint; an edit or a removal began a new one."""
        folder, last = f"{COMMITS}/{self._dagger}", list[Manifest]()
        for other in self._files.names(folder):
            names = self._files.names(f"{folder}/{other}") if other != batch.checkpoint else []
            texts = (self._files.get(f"{folder}/{other}/{name}") for name in reversed(names))
            # a manifest without files is of a batch that was abandoned
            last += islice(
                (manifest for text in texts if text and (manifest := json.loads(text))["files"]), 1
            )
        return last

    def commit(self, batch: Batch, content: Manifest) -> None:
        """Write the manifest of a batch, unless there is one, and publish its files.

        Raises: FencedError where a later launch has written the batch.
        """
        manifest = self._with_header(batch, content)
        self._files.put_once(self._name(batch), _serialize(manifest))
        existing = self.of(batch) or manifest
        if existing["generation"] > batch.generation:
            raise FencedError(batch.generation, existing["generation"])
        self._publish(existing)
        self.settle(batch)

    def settle(self, after: Batch | None = None) -> None:
        """Finish what others have left: publish or discard staged files of committed batches.

        after: the last committed batch; earlier batches without a manifest are abandoned.
        """
        decided: dict[Batch, Manifest | None] = {}
        for text, staged in self._files.list_staged(f"{self._dagger}."):
            name = FileName.parse(text)
            if name is None:
                continue
            if name.batch not in decided:
                decided[name.batch] = self._resolve(name.batch, after)
            existing = decided[name.batch]
            if existing is not None and text in {_last_part(file["path"]) for file in existing["files"]}:
                self._publish(existing)
            elif existing is not None:
                self._files.discard(staged)

    def _resolve(self, batch: Batch, after: Batch | None) -> Manifest | None:
        """Return the manifest of a batch with staged files; an abandoned batch gets one without files.

        None: the batch is of a later launch, which settles it, or will be written again by this checkpoint.
        """
        existing = self.of(batch)
        if existing is not None or after is None or batch.generation > after.generation:
            return existing
        if batch.checkpoint == after.checkpoint and batch.number > after.number:
            return None
        no_files = combine([{"schema": 0, "windows_to": None, "offsets": {}, "files": ()}])
        empty_batch = replace(batch, generation=after.generation)
        self._files.put_once(self._name(batch), _serialize(self._with_header(empty_batch, no_files)))
        return self.of(batch)

    def _with_header(self, batch: Batch, content: Manifest) -> Manifest:
        about = {"checkpoint": batch.checkpoint, "batch": batch.number, "generation": batch.generation}
        return {"version": 1, "dagger": self._dagger, **about, **content}

    def _publish(self, existing: Manifest) -> None:
        for file in existing["files"]:
            self._files.publish(file["path"], file["staged"])

    def _name(self, batch: Batch) -> str:
        return f"{COMMITS}/{self._dagger}/{batch.checkpoint}/{batch.number:010}.json"


def combine(parts: Iterable[Manifest]) -> Manifest:
    """Combine the contents of several parts of a batch into one."""
    listed = list(parts)
    files = sorted((file for part in listed for file in part["files"]), key=lambda file: str(file["path"]))
    extents = (Extent(windows_to=part["windows_to"], offsets=part["offsets"]) for part in listed)
    return {
        "schema": max(part["schema"] for part in listed),
        "rows": sum(file["rows"] for file in files),
        "bytes": sum(file["bytes"] for file in files),
        "from": min((file["from"] for file in files), default=None),
        "to": max((file["to"] for file in files), default=None),
        **extent.unite(extents),
        "files": files,
    }


def _serialize(manifest: Manifest) -> bytes:
    return json.dumps(manifest, indent=1).encode()


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]
