"""Verify the root of all checkpoints by a marker file in it (ADR 175).

If a disk is not mounted, an empty directory is in its place. A launch would begin anew there, unnoticed, and
its checkpoint would be hidden once the disk is back. So a root that was used before, by the log, is never
marked again.
"""

from __future__ import annotations

from daggers.v1 import spec_pb2

from daggerspec import anew
from runtime.errors import JobError, external
from runtime.state import checkpoint, damage
from runtime.state.store import Place, open_root


def settle(root: spec_pb2.CheckpointRoot) -> None:
    """Verify the marker; write it to a new root, or to one with a whole checkpoint of an earlier version.

    Raises: JobError (EXTERNAL, retryable).
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
    """Tell whether the root has the marker. Raises: OSError where the store does not answer."""
    return (place / anew.MARKER).exists()


def missing(root: str) -> JobError:
    """Build the error of a used root without a marker."""
    return external(
        anew.ROOT_MISSING,
        f"The checkpoint root {root} was used and has no file {anew.MARKER} now: its disk is not mounted, or"
        " it was emptied. It is waited for, and nothing is begun anew.",
        retryable=True,
    )
