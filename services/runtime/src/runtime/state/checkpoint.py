"""Which checkpoint a launch uses, and how far the one before it had come.

A checkpoint's directory is named after the fingerprint of the plan whose state it holds: the same fingerprint
goes on where it stopped, another one begins anew, far enough back that the windows that were open at the edit
are counted whole. The old ones are kept until the new one has committed a batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from runtime.errors import internal
from runtime.state.store import Place

_FOLDER = "checkpoints"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SAFE = re.compile(r"[^A-Za-z0-9._-]")
# In a checkpoint: how far event time was read.
_READ_UNTIL = "read-until.json"
# Beside a checkpoint that is being removed, by its name: what is left of it is no checkpoint.
_GONE = ".gone"
# Between the fingerprint and the generation in the name of a checkpoint that a shadow began (ADR 138). It
# counts once there is a file beside it, by its name, that says up to where windows were written before.
_OF, _HANDED = "~", ".handed"
# In the checkpoint root of a dagger: the number of the last request to begin anew that was carried out.
_ANEW = "from-start"


@dataclass(frozen=True, slots=True)
class Stand:
    """How far a checkpoint had come."""

    path: Place
    begun: Mapping[tuple[str, int], int]
    """Where reading began: the offset, by the topic's id and the number of the partition."""
    next: Mapping[tuple[str, int], int]
    """The offset of the next record to read."""
    watermark: datetime | None
    """Up to which event time the last committed batch closed windows; None: none was closed."""
    complete_from: int
    """The event time (us) before which its windows were partial; 0: none was."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of one launch."""

    path: Place
    """Its directory; it may not exist yet."""
    stand: Stand | None
    """How far the one before it had come; None for the first, and once this one has committed a batch."""
    outdated: tuple[Place, ...]
    """Checkpoints of other fingerprints, to remove once this one has committed a batch."""
    watermark: datetime | None = None
    """Up to which event time its own last committed batch closed windows; None: none was closed."""
    written: datetime | None = None
    """Windows that end up to this were written by the driver beside which it began; None: there was none."""

    @property
    def committed(self) -> bool:
        """Whether a batch was ever committed here."""
        return has_committed(self.path)

    def forget_outdated(self) -> None:
        """Remove the checkpoints of other fingerprints."""
        for path in self.outdated:
            with suppress(OSError):
                _remove(path)


def choose(root: Place, fingerprint: str, generation: int) -> Checkpoint:
    """The checkpoint of a plan with this fingerprint, for a launch of this generation.

    A new one goes by the other one that committed last; by one that never did only if none has. What older
    shadows left that were never handed over is removed.
    """
    folder = root / _FOLDER
    for name in _gone(folder):
        _remove(folder / name)
    counting, shadows = _checkpoints(folder)
    for shadow in shadows:
        if _generation(shadow) < generation:
            _remove(shadow)
    path = _own(folder, fingerprint, counting)
    others = tuple(place for place in counting if place.name != path.name)
    own = _stand(path)
    if own is not None and own[0]:
        return Checkpoint(path, None, others, own[1].watermark, _written(path))
    return Checkpoint(path, _newest(others), others, written=_written(path))


def begin_shadow(root: Place, fingerprint: str, generation: int) -> Checkpoint:
    """An empty checkpoint of a plan with this fingerprint, beside that of the driver that runs.

    It is this generation's alone, and does not count until it is handed over (`hand_over`). Raises: OSError;
    `JobError` (INTERNAL) where there is none to begin beside, or the plan would go on with that one.
    """
    folder = root / _FOLDER
    stand = beside(root)
    if stand.path.name == _own(folder, fingerprint, [stand.path]).name:
        raise internal("SHADOW_USELESS", "The checkpoint that there is, is the one that it would go on with.")
    path = folder / f"{_SAFE.sub('_', fingerprint)}{_OF}{generation}"
    return Checkpoint(path, stand, tuple(_checkpoints(folder)[0]))


def beside(root: Place) -> Stand:
    """How far the driver has come that runs beside a shadow: the checkpoint that committed last.

    Raises: OSError; `JobError` (INTERNAL) where none has.
    """
    stands = [stand for place in _checkpoints(root / _FOLDER)[0] if (stand := _stand(place)) and stand[0]]
    if not stands:
        raise internal("SHADOW_USELESS", "There is no checkpoint that it could begin beside.")
    return max(stands, key=lambda stand: stand[0])[1]


def hand_over(path: Place, written: datetime) -> None:
    """From here on this checkpoint of a shadow counts; windows that end up to `written` were written before.

    Raises: OSError; `JobError` (INTERNAL, retryable) where it is not there any more.
    """
    if not path.is_dir():
        raise internal("SHADOW_LOST", "Its checkpoint was removed.", retryable=True)
    path.with_name(path.name + _HANDED).write_text(json.dumps({"written": micros(written)}))


def kept(root: Place, fingerprint: str) -> list[Place]:
    """The checkpoints that count, that of a plan with this fingerprint first, which may not be there, and the
    one that committed last before others. Raises: OSError.
    """
    folder = root / _FOLDER
    begun = _checkpoints(folder)[0]
    own = _own(folder, fingerprint, begun)
    others = [place for place in begun if place.name != own.name]
    return [own, *sorted(others, key=_committed, reverse=True)]


def has_committed(checkpoint: Place) -> bool:
    """Whether a batch was committed there. Raises: OSError."""
    return _last_batch(checkpoint / "commits") is not None


def counting(root: Place) -> list[Place]:
    """The checkpoints of a dagger that count. Raises: OSError."""
    return _checkpoints(root / _FOLDER)[0]


def progress(root: Place) -> str:
    """How far the checkpoints of a dagger that count have come: another text once one has committed again.

    Raises: OSError.
    """
    last = {place.name: _last_batch(place / "commits") for place in counting(root)}
    return " ".join(f"{name}:{batch.name if batch else ''}" for name, batch in sorted(last.items()))


def begin_anew(root: Place, request: int) -> bool:
    """Remove all checkpoints of a dagger, once for each request by its number, 0 for one that has none;
    whether that was done now. Raises: OSError.
    """
    folder, done = root / _FOLDER, root / _ANEW
    if request and done.exists() and int(done.read_text()) >= request:
        return False
    begun, shadows = _checkpoints(folder)
    for place in [*begun, *shadows, *(folder / name for name in _gone(folder))]:
        _remove(place)
    if request:
        done.write_text(f"{request}\n")
    return True


def entries(folder: Place) -> list[Place]:
    """What is in a directory, sorted; nothing when there is none. Raises: OSError."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def read_until(path: Place) -> dict[str, dict[str, int]]:
    """The newest event time (us) that was read of each "topic/partition", about, by table; empty where nobody
    knows.

    Raises: OSError.
    """
    try:
        known = json.loads((path / _READ_UNTIL).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    # A driver that knew no tables there wrote the partitions of all together.
    return {table: times for table, times in known.items() if isinstance(times, dict)}


def keep_read_until(path: Place, known: Mapping[str, Mapping[str, int]]) -> None:
    """Keep that for launches to come. Raises: OSError."""
    (path / _READ_UNTIL).write_text(json.dumps(known, sort_keys=True))


def predecessor(root: Place, fingerprint: str) -> Stand | None:
    """How far the one had come that a plan with this fingerprint would go by, as `choose` has it. Changes
    nothing: a driver may use it. Raises: OSError, where that one removes what is read.
    """
    folder = root / _FOLDER
    counting = _checkpoints(folder)[0]
    own = _own(folder, fingerprint, counting)
    if (stand := _stand(own)) is not None and stand[0]:
        return None
    return _newest(place for place in counting if place.name != own.name)


def closed(root: Place, fingerprint: str) -> datetime | None:
    """Up to which event time the last committed batch of a plan with this fingerprint closed windows; None
    where none was closed. Changes nothing: a driver may use it.
    """
    folder = root / _FOLDER
    stand = _stand(_own(folder, fingerprint, _checkpoints(folder)[0]))
    return stand[1].watermark if stand is not None else None


def _committed(checkpoint: Place) -> float:
    """When it last committed; 0 for never."""
    commit = _last_batch(checkpoint / "commits")
    return 0.0 if commit is None else commit.modified()


def _newest(checkpoints: Iterable[Place]) -> Stand | None:
    """How far the one had come that committed last."""
    stands = [stand for checkpoint in checkpoints if (stand := _stand(checkpoint))]
    return max(stands, key=lambda stand: stand[0])[1] if stands else None


def _remove(path: Place) -> None:
    """Remove a checkpoint. Until all of it is gone a mark says so: half of one would be taken for a whole."""
    mark = path.with_name(path.name + _GONE)
    mark.create()
    if path.is_dir():
        path.remove()
    with suppress(FileNotFoundError):
        path.with_name(path.name + _HANDED).remove()
    mark.remove()


def micros(when: datetime) -> int:
    """An aware time in us since the epoch."""
    return (when - _EPOCH) // _MICROSECOND


def instant(micros: int) -> datetime:
    """The inverse of `micros`."""
    return _EPOCH + micros * _MICROSECOND


def _checkpoints(folder: Place) -> tuple[list[Place], list[Place]]:
    """Those that count, and those of shadows that were not handed over; none that is being removed."""
    names = {entry.name for entry in entries(folder)}
    gone = _gone(folder)
    there = [entry for entry in entries(folder) if entry.name not in gone and entry.is_dir()]
    shadows = [entry for entry in there if _OF in entry.name and entry.name + _HANDED not in names]
    return [entry for entry in there if entry not in shadows], shadows


def _gone(folder: Place) -> set[str]:
    """The names of the checkpoints that are being removed."""
    return {entry.name.removesuffix(_GONE) for entry in entries(folder) if entry.name.endswith(_GONE)}


def _own(folder: Place, fingerprint: str, counting: Iterable[Place]) -> Place:
    """The checkpoint of a plan with this fingerprint: that of the newest shadow which became its driver, if
    there is one.
    """
    name = _SAFE.sub("_", fingerprint)
    handed = [place for place in counting if place.name.startswith(name + _OF)]
    return max(handed, key=_generation, default=folder / name)


def _generation(shadow: Place) -> int:
    """Whose checkpoint it is."""
    return int(shadow.name.rpartition(_OF)[2])


def _written(path: Place) -> datetime | None:
    """What was written before this checkpoint was handed over; None where it is no shadow's."""
    if _OF not in path.name:
        return None
    return instant(json.loads(path.with_name(path.name + _HANDED).read_text())["written"])


def _stand(checkpoint: Place) -> tuple[float, Stand] | None:
    """When a checkpoint last committed, 0 for never, and how far it had come; None where nothing was decided.

    Before the first commit that is where reading was to begin.
    """
    starts = [start for file in assignments(checkpoint) for start in _starts(file)]
    complete_from = max((start["complete_from"] for start in starts), default=0)
    begun = _positions(reversed(starts))  # of a topic that was handed on, where it was first
    commit = _last_batch(checkpoint / "commits")
    if commit is None:
        return (0, Stand(checkpoint, begun, begun, None, complete_from)) if starts else None
    when = commit.modified()
    batch, *ends = _objects(checkpoint / "offsets" / commit.name)
    millis = int(batch.get("batchWatermarkMs", 0))
    watermark = datetime.fromtimestamp(millis / 1000, UTC) if millis else None
    return when, Stand(checkpoint, begun, _positions(ends), watermark, complete_from)


def assignments(checkpoint: Place) -> list[Place]:
    """The assignments (`source.assignment_store`), the oldest first; earlier versions had a file for each
    reader.

    Beside each file may be one with its checksum, whose name begins with a dot.
    """
    files = [file for file in entries(checkpoint / "source-start") if not file.name.startswith(".")]
    return sorted(files, key=lambda file: int(file.name) if file.name.isdigit() else 0)


def _starts(file: Place) -> Iterator[Mapping[str, Any]]:
    """Where the readers of one file begin (`source.offsets`)."""
    for item in _objects(file):
        if "shares" not in item:
            yield item
        for shares in item.get("shares", {}).values():
            yield from shares


def _positions(readers: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """The offsets of readers (`source.offsets`), by the topic's id and the number of the partition."""
    return {
        (reader["ids"][topic], int(number)): offset
        for reader in readers
        for topic, numbers in reader["next"].items()
        for number, offset in numbers.items()
    }


def _objects(file: Place) -> Iterator[Mapping[str, Any]]:
    """The JSON objects in one of Spark's log files: one in a line, behind its key or alone."""
    for line in file.read_text().splitlines():
        if "{" in line:
            yield json.loads(line[line.index("{") :])


def is_readable(file: Place) -> bool:
    """Whether a file of one of Spark's logs has JSON objects, as each of them has. Raises: OSError."""
    try:
        return bool([*_objects(file)])
    except ValueError:
        return False


def _last_batch(log: Place) -> Place | None:
    """The newest file of one of Spark's logs: files named by the number of their batch."""
    batches = [entry for entry in entries(log) if entry.name.isdigit()]
    return max(batches, key=lambda entry: int(entry.name), default=None)
