"""Whether the root of all checkpoints is the one: a marker file in it says so (ADR 175).

Where a disk is not mounted there is an empty directory in its place. What begins there begins anew, without
a word, and is gone once the disk is back. So nobody marks a root of which the log says that it was used.
"""

from __future__ import annotations

from daggers.v1 import spec_pb2

from daggerspec import anew
from runtime.errors import JobError, external
from runtime.state import checkpoint, damage
from runtime.state.store import Place, open_root


def settle(root: spec_pb2.CheckpointRoot) -> None:
    """Return if the root is marked, or is now: one that is new, or that holds a whole checkpoint, for earlier
    versions knew no marker.

    Raises: `JobError` (EXTERNAL, retryable).
    """
    place = open_root(root.root)[0]
    try:
        if is_marked(place):
            return
        if root.used and not any(damage.holds_one(own) for own in checkpoint.entries(place)):
            raise missing(root.root)
        (place / anew.MARKER).write_text(anew.MARKED)
    except OSError as problem:
        raise external(
            anew.ROOT_MISSING,
            f"The checkpoint root {root.root} cannot be used ({problem}). It is waited for, and nothing is"
            " begun anew.",
            retryable=True,
        ) from problem


def is_marked(place: Place) -> bool:
    """Whether the marker is there. Raises: OSError where the store does not answer."""
    return (place / anew.MARKER).exists()


def missing(root: str) -> JobError:
    """What to raise where a root that was used has no marker."""
    return external(
        anew.ROOT_MISSING,
        f"The checkpoint root {root} was used and has no file {anew.MARKER} now: its disk is not mounted, or"
        " it was emptied. It is waited for, and nothing is begun anew.",
        retryable=True,
    )
