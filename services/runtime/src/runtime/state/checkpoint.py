"""Choose the checkpoint of a launch, and read how far the one before it has come.

A checkpoint's directory is named after the fingerprint of its plan: the same fingerprint resumes it, another
one begins anew, far enough back that windows that were open at the edit are counted whole. Old checkpoints
are removed once the new one has committed a batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from runtime.errors import internal
from runtime.state.store import Place

PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""Setting of Spark: into how many parts state is divided."""
_FOLDER = "checkpoints"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SAFE = re.compile(r"[^A-Za-z0-9._-]")
# file in a checkpoint: event times that were read
_READ_UNTIL = "read-until.json"
# key in it of the last batch that was read: no table has such a name
_THROUGH = "#batch"
# suffix of a file beside a checkpoint that is being removed: its rest is no checkpoint
_GONE = ".gone"
# separates fingerprint and generation in the name of a shadow's checkpoint (ADR 138). It counts once a file
# with this suffix is beside it, which has the event time up to which windows were written before
_OF, _HANDED = "~", ".handed"
# file in a dagger's checkpoint root: number of the last executed request to begin anew
_ANEW = "from-start"


@dataclass(frozen=True, slots=True)
class Stand:
    """Progress of a checkpoint."""

    path: Place
    begun: Mapping[tuple[str, int], int]
    """First offsets that were read, by id of the topic and partition."""
    next: Mapping[tuple[str, int], int]
    """Offsets of the next records to read."""
    watermark: datetime | None
    """Event time up to which the last committed batch closed windows; None: it closed none."""
    complete_from: int
    """Event time (us) before which its windows were partial; 0: none was."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint of one launch."""

    path: Place
    """Directory; it may not exist yet."""
    stand: Stand | None
    """Progress of the checkpoint before; None for the first one, and once this one has committed a batch."""
    outdated: tuple[Place, ...]
    """Checkpoints of other fingerprints, to be removed once this one has committed a batch."""
    watermark: datetime | None = None
    """Event time up to which its own last committed batch closed windows; None: it closed none."""
    written: datetime | None = None
    """Event time up to which windows were written by the driver that it was a shadow of; None: it was none.
    """

    @property
    def committed(self) -> bool:
        """True if a batch was ever committed here."""
        return has_committed(self.path)

    def forget_outdated(self) -> None:
        """Remove the checkpoints of other fingerprints."""
        for path in self.outdated:
            with suppress(OSError):
                _remove(path)


def choose(root: Place, fingerprint: str, generation: int) -> Checkpoint:
    """Choose the checkpoint of a plan with this fingerprint, for a launch of this generation.

    A new checkpoint continues the other one that committed last, or if none has, one that never did.
    Checkpoints of older shadows that never took over are removed.
    """
    folder = root / _FOLDER
    for name in _names_being_removed(folder):
        _remove(folder / name)
    counting, shadows = _checkpoints(folder)
    for shadow in shadows:
        if _generation(shadow) < generation:
            _remove(shadow)
    path = _own(folder, fingerprint, counting)
    others = tuple(place for place in counting if place.name != path.name)
    own = _stand(path)
    if own is not None and own[0]:
        return Checkpoint(path, None, others, own[1].watermark, _written_before_handover(path))
    return Checkpoint(path, _newest(others), others, written=_written_before_handover(path))


def begin_shadow(root: Place, fingerprint: str, generation: int) -> Checkpoint:
    """Begin an empty checkpoint of a shadow, beside that of the running driver.

    It belongs to this generation alone, and does not count before `hand_over`. Raises: OSError; JobError
    (INTERNAL) where the driver has no checkpoint, or the plan would resume that one.
    """
    folder = root / _FOLDER
    stand = beside(root)
    if stand.path.name == _own(folder, fingerprint, [stand.path]).name:
        raise internal("SHADOW_USELESS", "The checkpoint that there is, is the one that it would go on with.")
    path = folder / f"{_SAFE.sub('_', fingerprint)}{_OF}{generation}"
    return Checkpoint(path, stand, tuple(_checkpoints(folder)[0]))


def beside(root: Place) -> Stand:
    """Return the progress of the driver that runs beside a shadow: the checkpoint that committed last.

    Raises: OSError; JobError (INTERNAL) where none has committed.
    """
    stands = [stand for place in _checkpoints(root / _FOLDER)[0] if (stand := _stand(place)) and stand[0]]
    if not stands:
        raise internal("SHADOW_USELESS", "There is no checkpoint that it could begin beside.")
    return max(stands, key=lambda stand: stand[0])[1]


def hand_over(path: Place, written: datetime) -> None:
    """Make a shadow's checkpoint count from now on. written: event time up to which windows are written.

    Raises: OSError; JobError (INTERNAL, retryable) where the checkpoint was removed.
    """
    if not path.is_dir():
        raise internal("SHADOW_LOST", "Its checkpoint was removed.", retryable=True)
    path.with_name(path.name + _HANDED).write_text(json.dumps({"written": micros(written)}))


def list_candidates(root: Place, fingerprint: str) -> list[Place]:
    """List the checkpoints that a launch of this fingerprint may continue, the best first.

    The fingerprint's own is first, and may not exist; the others are sorted by their last commits, newest
    first. Raises: OSError.
    """
    folder = root / _FOLDER
    begun = _checkpoints(folder)[0]
    own = _own(folder, fingerprint, begun)
    others = [place for place in begun if place.name != own.name]
    return [own, *sorted(others, key=_last_commit_time, reverse=True)]


def has_committed(checkpoint: Place) -> bool:
    """Tell whether a checkpoint has a committed batch. Raises: OSError."""
    return last_batch(checkpoint / "commits") is not None


def counting(root: Place) -> list[Place]:
    """List the checkpoints of a dagger that count. Raises: OSError."""
    return _checkpoints(root / _FOLDER)[0]


def progress(root: Place) -> str:
    """Return the progress of a dagger's checkpoints as a text that changes with each commit.

    Raises: OSError.
    """
    last = {place.name: last_batch(place / "commits") for place in counting(root)}
    return " ".join(f"{name}:{batch.name if batch else ''}" for name, batch in sorted(last.items()))


def begin_anew(root: Place, request: int) -> bool:
    """Remove all checkpoints of a dagger, once for each request; return whether it did so now.

    request: number of the request; 0 always removes them. Raises: OSError.
    """
    folder, done = root / _FOLDER, root / _ANEW
    if request and done.exists() and int(done.read_text()) >= request:
        return False
    begun, shadows = _checkpoints(folder)
    for place in [*begun, *shadows, *(folder / name for name in _names_being_removed(folder))]:
        _remove(place)
    if request:
        done.write_text(f"{request}\n")
    return True


def entries(folder: Place) -> list[Place]:
    """List a directory, sorted; empty where there is none. Raises: OSError."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def read_until(path: Place) -> dict[str, dict[str, int]]:
    """Read the newest event times (us) that were read, by table and "topic/partition"; empty if unknown.

    They may be a little old. Raises: OSError.
    """
    try:
        times_by_table = json.loads((path / _READ_UNTIL).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    # older drivers wrote the partitions of all tables together: these values are no dicts
    return {table: times for table, times in times_by_table.items() if isinstance(times, dict)}


def keep_read_until(
    path: Place, times_by_table: Mapping[str, Mapping[str, int]], through: int | None = None
) -> None:
    """Save the event times that were read, for later launches. Raises: OSError.

    through: last batch that was read.
    """
    batch = {} if through is None else {_THROUGH: through}
    (path / _READ_UNTIL).write_text(json.dumps({**times_by_table, **batch}, sort_keys=True))


def is_read_until_exact(path: Place) -> bool:
    """Tell whether `read_until` is as of the last committed batch, which it is not of older drivers.

    Raises: OSError.
    """
    commit = last_batch(path / "commits")
    try:
        through = json.loads((path / _READ_UNTIL).read_text()).get(_THROUGH)
    except (FileNotFoundError, ValueError):
        return False
    return commit is not None and through == int(commit.name)


def predecessor(root: Place, fingerprint: str) -> Stand | None:
    """Return the progress of the checkpoint that a plan with this fingerprint would continue.

    It changes nothing: a driver may be using the checkpoints. Raises: OSError, also where that driver removes
    one meanwhile.
    """
    folder = root / _FOLDER
    counting = _checkpoints(folder)[0]
    own = _own(folder, fingerprint, counting)
    if (stand := _stand(own)) is not None and stand[0]:
        return None
    return _newest(place for place in counting if place.name != own.name)


def closed_until(root: Place, fingerprint: str) -> datetime | None:
    """Return the event time up to which a plan with this fingerprint has closed windows; None: it closed
    none.

    It changes nothing: a driver may be using the checkpoint.
    """
    folder = root / _FOLDER
    stand = _stand(_own(folder, fingerprint, _checkpoints(folder)[0]))
    return stand[1].watermark if stand is not None else None


def _last_commit_time(checkpoint: Place) -> float:
    """Return when a checkpoint last committed; 0 for never."""
    commit = last_batch(checkpoint / "commits")
    return 0.0 if commit is None else commit.modified_at()


def _newest(checkpoints: Iterable[Place]) -> Stand | None:
    """Return the progress of the checkpoint that committed last; None where there is none."""
    stands = [stand for checkpoint in checkpoints if (stand := _stand(checkpoint))]
    return max(stands, key=lambda stand: stand[0])[1] if stands else None


def _remove(path: Place) -> None:
    """Remove a checkpoint, under a mark until all of it is gone: else the rest could be taken for a whole."""
    mark = path.with_name(path.name + _GONE)
    mark.create()
    if path.is_dir():
        path.remove()
    with suppress(FileNotFoundError):
        path.with_name(path.name + _HANDED).remove()
    mark.remove()


def micros(when: datetime) -> int:
    """Convert an aware time to us since 1970."""
    return (when - _EPOCH) // _MICROSECOND


def instant(micros: int) -> datetime:
    """Convert us since 1970 to a time in UTC."""
    return _EPOCH + micros * _MICROSECOND


def _checkpoints(folder: Place) -> tuple[list[Place], list[Place]]:
    """List the checkpoints that count, and those of shadows that did not take over; none being removed."""
    names = {entry.name for entry in entries(folder)}
    gone = _names_being_removed(folder)
    there = [entry for entry in entries(folder) if entry.name not in gone and entry.is_dir()]
    shadows = [entry for entry in there if _OF in entry.name and entry.name + _HANDED not in names]
    return [entry for entry in there if entry not in shadows], shadows


def _names_being_removed(folder: Place) -> set[str]:
    """Return the names of the checkpoints that are being removed."""
    return {entry.name.removesuffix(_GONE) for entry in entries(folder) if entry.name.endswith(_GONE)}


def _own(folder: Place, fingerprint: str, counting: Iterable[Place]) -> Place:
    """Return the checkpoint of a fingerprint: that of the newest shadow that took over, if there is one."""
    name = _SAFE.sub("_", fingerprint)
    of_shadows = [place for place in counting if place.name.startswith(name + _OF)]
    return max(of_shadows, key=_generation, default=folder / name)


def _generation(shadow: Place) -> int:
    """Return the generation of a shadow's checkpoint."""
    return int(shadow.name.rpartition(_OF)[2])


def _written_before_handover(path: Place) -> datetime | None:
    """Return up to which event time windows were written before a shadow took over; None for no shadow's."""
    if _OF not in path.name:
        return None
    return instant(json.loads(path.with_name(path.name + _HANDED).read_text())["written"])


def _stand(checkpoint: Place) -> tuple[float, Stand] | None:
    """Return the time of a checkpoint's last commit, 0 for never, and its progress; None if it has not begun.

    Before the first commit its progress is where reading will begin.
    """
    starts = [start for file in assignments(checkpoint) for start in _starts(file)]
    complete_from = max((start["complete_from"] for start in starts), default=0)
    begun = _positions(reversed(starts))  # of a topic in several starts the first one counts
    commit = last_batch(checkpoint / "commits")
    if commit is None:
        return (0, Stand(checkpoint, begun, begun, None, complete_from)) if starts else None
    when = commit.modified_at()
    batch, *ends = _objects(checkpoint / "offsets" / commit.name)
    millis = int(batch.get("batchWatermarkMs", 0))
    watermark = datetime.fromtimestamp(millis / 1000, UTC) if millis else None
    return when, Stand(checkpoint, begun, _positions(ends), watermark, complete_from)


def assignments(checkpoint: Place) -> list[Place]:
    """List the files of assignments (`source.assignment_store`), oldest first.

    Earlier versions had a file for each reader. Checksum files, whose names begin with a dot, are left out.
    """
    files = [file for file in entries(checkpoint / "source-start") if not file.name.startswith(".")]
    return sorted(files, key=lambda file: int(file.name) if file.name.isdigit() else 0)


def _starts(file: Place) -> Iterator[Mapping[str, Any]]:
    """Yield the starts of the readers in one file (`source.offsets`)."""
    for item in _objects(file):
        if "shares" not in item:
            yield item
        for shares in item.get("shares", {}).values():
            yield from shares


def _positions(readers: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """Merge the offsets of readers (`source.offsets`), by id of the topic and partition."""
    return {
        (reader["ids"][topic], int(number)): offset
        for reader in readers
        for topic, numbers in reader["next"].items()
        for number, offset in numbers.items()
    }


def _objects(file: Place) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in one of Spark's log files: one per line, perhaps behind a key."""
    for line in file.read_text().splitlines():
        if "{" in line:
            yield json.loads(line[line.index("{") :])


def settings(path: Place, batch: int) -> Mapping[str, str]:
    """Read the settings of Spark that a batch was begun with (`PARTITIONS`), which its checkpoint keeps to.
    Raises: OSError.

    Empty where the log of offsets does not say.
    """
    file = path / "offsets" / str(batch)
    metadata: Mapping[str, Mapping[str, str]] = next(_objects(file), {}) if file.exists() else {}
    return metadata.get("conf", {})


def is_readable(file: Place) -> bool:
    """Tell whether a file of Spark's logs has JSON objects, as it must. Raises: OSError."""
    try:
        return bool([*_objects(file)])
    except ValueError:
        return False


def last_batch(log: Place) -> Place | None:
    """Return the newest file of one of Spark's logs, whose files are named by batch; None if it has none."""
    batches = [entry for entry in entries(log) if entry.name.isdigit()]
    return max(batches, key=lambda entry: int(entry.name), default=None)
