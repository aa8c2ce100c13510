"""What is missing of a checkpoint that was kept: all of it, one of its logs, or state that it goes on with.

Spark finds out when it reads that, at a launch, and says what no person understands. What is inside a file is
Spark's to judge, but for the logs that a launch of ours reads first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from daggerspec import anew
from runtime.errors import JobError, external
from runtime.state import checkpoint
from runtime.state.store import Place

# Versions of state: what a version is, and what leads to it from the one before. Later formats add an id.
_VERSION = re.compile(r"(\d+)(?:_[^.]*)?\.(delta|changelog|snapshot|zip)")
_WHOLE = ("snapshot", "zip")


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with a checkpoint."""

    reason: str
    """CHECKPOINT_GONE or CHECKPOINT_DAMAGED."""
    detail: str
    """One clause."""

    def error(self, *, retryable: bool) -> JobError:
        """The same, as what ends a launch. `retryable`: the next launch may judge otherwise."""
        text = f"{self.detail}. Put it back and start it, or begin anew: `daggers restart NAME --from-start`"
        return external(self.reason, f"{text} says what is missed.", retryable=retryable)


def of_launch(root: Place, fingerprint: str) -> Damage | None:
    """What is wrong with the checkpoint that a launch of a plan with this fingerprint would go by, in the
    checkpoint root of a dagger that has kept one. Raises: OSError where the store does not answer.
    """
    kept = [place for place in checkpoint.kept(root, fingerprint) if _is_begun(place)]
    if not kept:
        return Damage(anew.GONE, f"The checkpoint of this dagger is gone: there is none in {root}")
    return of(kept[0])


def of(path: Place) -> Damage | None:
    """What is missing of a checkpoint that was begun. Raises: OSError where the store does not answer."""
    if not path.is_dir():
        return Damage(anew.GONE, f"The checkpoint {path} is gone")
    wrong = next(_missing(path), None)
    return None if wrong is None else Damage(anew.DAMAGED, f"The checkpoint {path} is damaged: {wrong}")


def holds_one(root: Place) -> bool:
    """Whether the checkpoint root of a dagger holds a whole one with a committed batch. Raises: OSError."""
    places = checkpoint.counting(root) if root.is_dir() else []
    return any(checkpoint.has_committed(place) and of(place) is None for place in places)


def _is_begun(path: Place) -> bool:
    return any((path / part).is_dir() for part in ("source-start", "offsets", "commits", "state"))


def _missing(path: Place) -> Iterator[str]:
    """What is not there that has to be, the first first."""
    # In this order, as batches go on meanwhile: what was planned by now is committed but for the last, and
    # what is committed by then was planned.
    newest = max(_batches(path / "offsets"), default=-1)
    committed = _batches(path / "commits")
    planned = _batches(path / "offsets")
    if not committed and not planned:
        return  # begun, and no batch of it was: it is made whole by the next launch
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
        yield from _missing_state(path / "state", last + 1)


def _batches(log: Place) -> set[int]:
    return {int(entry.name) for entry in checkpoint.entries(log) if entry.name.isdigit()}


def _missing_state(state: Place, version: int) -> Iterator[str]:
    """What is missing of each store to read this version of it."""
    for operator in _numbered(state):
        for partition in _numbered(operator):
            for store in (partition, *_directories(partition)):
                names = [entry.name for entry in checkpoint.entries(store)]
                if _VERSION.search(" ".join(names)) and not can_read(names, version):
                    yield f"version {version} of the state in {store} cannot be read from what is there"
            if not checkpoint.entries(partition):
                yield f"the state in {partition} is gone"


def can_read(names: Iterable[str], version: int) -> bool:
    """Whether a version of a store can be read from files of these names: a whole one at or before it, or the
    empty store, and every step from there.
    """
    versions = [match for match in map(_VERSION.fullmatch, names) if match]
    whole = {int(match[1]) for match in versions if match[2] in _WHOLE} | {0}
    steps = {int(match[1]) for match in versions if match[2] not in _WHOLE}
    base = max(number for number in whole if number <= version)
    return all(number in steps for number in range(base + 1, version + 1))


def _numbered(folder: Place) -> list[Place]:
    return [entry for entry in checkpoint.entries(folder) if entry.name.isdigit() and entry.is_dir()]


def _directories(folder: Place) -> list[Place]:
    return [
        entry
        for entry in checkpoint.entries(folder)
        if not entry.name.startswith(("_", ".")) and entry.is_dir()
    ]
