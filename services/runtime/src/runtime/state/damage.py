"""Find missing parts of a checkpoint: all of it, one of its logs, or state that it needs to continue.

Spark would fail of it at a launch, with an error that people do not understand. Contents of files are checked
by Spark alone, except the logs that our launches read first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from daggerspec import anew
from runtime.errors import JobError, external
from runtime.state import checkpoint
from runtime.state.store import Place

# files of state: whole versions, and changes from the version before; later formats add an id
_VERSION = re.compile(r"(\d+)(?:_[^.]*)?\.(delta|changelog|snapshot|zip)")
_WHOLE = ("snapshot", "zip")


@dataclass(frozen=True, slots=True)
class Damage:
    """Problem of a checkpoint."""

    reason: str
    """CHECKPOINT_GONE or CHECKPOINT_DAMAGED."""
    detail: str
    """One clause."""

    def error(self, *, retryable: bool) -> JobError:
        """Build the error that ends a launch. retryable: the next launch may find otherwise."""
        text = f"{self.detail}. Put it back and start it, or begin anew: `daggers restart NAME --from-start`"
        return external(self.reason, f"{text} says what is missed.", retryable=retryable)


def of_launch(root: Place, fingerprint: str) -> Damage | None:
    """Check the checkpoint that a launch of a plan with this fingerprint would continue; it must exist.

    root: checkpoint root of the dagger. Raises: OSError where the store does not answer.
    """
    begun = [place for place in checkpoint.list_candidates(root, fingerprint) if _is_begun(place)]
    if not begun:
        return Damage(anew.GONE, f"The checkpoint of this dagger is gone: there is none in {root}")
    return of(begun[0])


def of(path: Place) -> Damage | None:
    """Check a checkpoint that has begun; None if it is whole. Raises: OSError where the store is silent."""
    if not path.is_dir():
        return Damage(anew.GONE, f"The checkpoint {path} is gone")
    wrong = next(_missing(path), None)
    return None if wrong is None else Damage(anew.DAMAGED, f"The checkpoint {path} is damaged: {wrong}")


def holds_one(root: Place) -> bool:
    """Tell whether a dagger's root has a whole checkpoint with a committed batch. Raises: OSError."""
    places = checkpoint.counting(root) if root.is_dir() else []
    return any(checkpoint.has_committed(place) and of(place) is None for place in places)


def _is_begun(path: Place) -> bool:
    return any((path / part).is_dir() for part in ("source-start", "offsets", "commits", "state"))


def _missing(path: Place) -> Iterator[str]:
    """Yield the missing parts, the most important first."""
    # read in this order, as batches go on meanwhile: all batches planned by the first read are committed by
    # the second, but for the last one, and all that are committed by then are planned in the third
    newest = max(_batches(path / "offsets"), default=-1)
    committed = _batches(path / "commits")
    planned = _batches(path / "offsets")
    if not committed and not planned:
        return  # it has no batch yet: the next launch completes it
    if not (path / "metadata").exists():
        yield "its file `metadata` is gone"
    if not checkpoint.entries(path / "source-start"):
        yield "the directory `source-start`, which says who reads what, is gone"
    last = max(committed, default=-1)
    if last < newest - 1:
        yield f"batch {newest} was begun, and the one before is not in `commits`"
    for batch in {last, newest - 1, newest} - planned:
        if batch >= 0:
            yield f"batch {batch} is not in `offsets`"
    logs = [(f"offsets/{batch}", path / "offsets" / str(batch)) for batch in sorted({last, newest} & planned)]
    logs += [(f"source-start/{file.name}", file) for file in checkpoint.assignments(path)]
    for name, file in logs:
        if not checkpoint.is_readable(file):
            yield f"its file `{name}` cannot be read"
    if committed:
        yield from _missing_state(path / "state", last + 1, _partitions(path, last))


def _partitions(path: Place, batch: int) -> int:
    """Return the number of partitions that state has; more than there are where no log says so."""
    return int(checkpoint.settings(path, batch).get(checkpoint.PARTITIONS, 1_000_000))


def _batches(log: Place) -> set[int]:
    return {int(entry.name) for entry in checkpoint.entries(log) if entry.name.isdigit()}


def _missing_state(state: Place, version: int, partitions: int) -> Iterator[str]:
    """Yield the stores whose given version cannot be read from their files.

    Beyond `partitions` are stores of before the state was divided into fewer: nobody reads them.
    """
    for operator in _numbered_folders(state):
        for partition in _numbered_folders(operator):
            if int(partition.name) >= partitions:
                continue
            for store in (partition, *_directories(partition)):
                names = [entry.name for entry in checkpoint.entries(store)]
                if _VERSION.search(" ".join(names)) and not can_read(names, version):
                    yield f"version {version} of the state in {store} cannot be read from what is there"
            if not checkpoint.entries(partition):
                yield f"the state in {partition} is gone"


def can_read(names: Iterable[str], version: int) -> bool:
    """Tell whether a version of a store can be read from files of these names.

    It takes a whole version at or before it, or the empty store, and all changes from there on.
    """
    versions = [match for match in map(_VERSION.fullmatch, names) if match]
    whole = {int(match[1]) for match in versions if match[2] in _WHOLE} | {0}
    steps = {int(match[1]) for match in versions if match[2] not in _WHOLE}
    base = max(number for number in whole if number <= version)
    return all(number in steps for number in range(base + 1, version + 1))


def _numbered_folders(folder: Place) -> list[Place]:
    return [entry for entry in checkpoint.entries(folder) if entry.name.isdigit() and entry.is_dir()]


def _directories(folder: Place) -> list[Place]:
    return [
        entry
        for entry in checkpoint.entries(folder)
        if not entry.name.startswith(("_", ".")) and entry.is_dir()
    ]
