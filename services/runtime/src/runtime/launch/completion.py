"""Find up to which offsets all that was read is in every sink: a service can read its own writes. Pure.

A record is there once all windows that it belongs to are written, which is when event time has passed the end
of the last of them. Records of a batch are there together: with them waits whoever came before. Times are in
ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from runtime.source.watermark import NEVER, Windows

# of windows that end at any instant, each batch would be one to wait for
_MOST_PENDING: Final = 1_000


@dataclass(frozen=True, slots=True)
class PendingOffsets:
    """Offsets up to which records were read that are there once event time has closed windows to `needs`."""

    needs: int
    offsets: Mapping[str, int]
    """Offset behind the last record that was read, by "topic/partition"."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Progress of one launch in completing what it read."""

    windows: Windows | None
    """Windows of the query; None where each batch writes all that it read."""
    least: int = NEVER
    """Event time to which windows have to be closed for what was read before this launch."""
    pending: tuple[PendingOffsets, ...] = ()
    """Offsets that were read and are not completed, oldest first."""
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Offset behind the last record that is in every sink, with all before it, by "topic/partition"."""


def begin(
    windows: Windows | None,
    *,
    newest: int | None,
    is_exact: bool,
    ahead_until: int,
) -> Completion:
    """Build the completion of a launch that has read nothing yet.

    newest: greatest event time that earlier launches read into windows that are open; None where there are
    none. is_exact: whether they had saved that behind their last batch. ahead_until: how far ahead an event
    time may be, for where they had not.
    """
    if windows is None or newest is None:
        return Completion(windows)
    return Completion(windows, windows.last_gate(newest if is_exact else max(newest, ahead_until)))


def batch_committed(
    completion: Completion, ends: Mapping[str, int], *, newest: int | None, closed: int
) -> Completion:
    """Add a committed batch that read up to `ends`.

    newest: greatest event time that this launch has read. closed: event time up to which windows are written.
    """
    windows = completion.windows
    if windows is None:
        return replace(completion, offsets={**completion.offsets, **ends})
    needs = max(completion.least, NEVER if newest is None else windows.last_gate(newest))
    pending = [*completion.pending]
    if pending and (pending[-1].needs == needs or len(pending) >= _MOST_PENDING):
        last = pending.pop()
        pending.append(PendingOffsets(max(needs, last.needs), {**last.offsets, **ends}))
    else:
        pending.append(PendingOffsets(needs, ends))
    offsets = dict(completion.offsets)
    while pending and pending[0].needs <= closed:
        offsets |= pending.pop(0).offsets
    return replace(completion, pending=tuple(pending), offsets=offsets)
