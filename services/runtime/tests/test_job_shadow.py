"""A shadow's checkpoint, which counts from one step on; and the boundary at which a driver beside it ends."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from services.runtime.tests.job_checkpoint import MINUTE, NOON, checkpoint

from daggerspec import rundir
from runtime.errors import JobError
from runtime.launch.boundary import Boundary
from runtime.source.watermark import Windows
from runtime.state.checkpoint import (
    begin_shadow,
    beside,
    choose,
    closed_until,
    hand_over,
    instant,
    micros,
    predecessor,
)
from runtime.state.store.local import LocalPlace

WINDOWS = Windows(60_000, 60_000)


def shadow(root: Path, generation: int = 7) -> Path:
    """The checkpoint of a shadow that has committed, beside that of `old`."""
    return checkpoint(root, f"new~{generation}", batches=2, watermark=NOON - MINUTE)


def test_a_shadow_begins_where_an_edit_begins_in_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "old", batches=3, watermark=NOON)

    begun = begin_shadow(LocalPlace(tmp_path), "new", 7)

    assert begun.path.local == tmp_path / "checkpoints" / "new~7"
    assert (begun.stand, begun.written) == (choose(LocalPlace(tmp_path), "new", 7).stand, None)
    assert [place.local for place in begun.outdated] == [old]


def test_there_is_no_shadow_where_nothing_was_committed_or_the_state_is_kept(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="SHADOW_USELESS"):
        begin_shadow(LocalPlace(tmp_path), "new", 7)
    checkpoint(tmp_path, "old", batches=0, watermark=None)
    with pytest.raises(JobError, match="SHADOW_USELESS"):
        begin_shadow(LocalPlace(tmp_path), "new", 7)
    checkpoint(tmp_path, "new", batches=1, watermark=NOON)
    with pytest.raises(JobError, match="SHADOW_USELESS"):
        begin_shadow(LocalPlace(tmp_path), "new", 7)


def test_a_checkpoint_that_was_not_handed_over_is_none_and_the_next_launch_removes_it(tmp_path: Path) -> None:
    root = LocalPlace(tmp_path)
    old = checkpoint(tmp_path, "old", batches=3, watermark=NOON)
    left = shadow(tmp_path)

    seen = (predecessor(root, "none"), beside(root), predecessor(root, "new"), closed_until(root, "new"))
    own = choose(root, "old", 5)
    stays = left.exists()
    chosen = choose(root, "new", 8)

    assert [stand and stand.path for stand in seen[:3]] == [LocalPlace(old)] * 3  # type: ignore[union-attr]
    assert (seen[3], own.watermark, own.outdated, stays) == (None, NOON, (), True)
    assert (chosen.path.name, chosen.stand and chosen.stand.path.local, left.exists()) == ("new", old, False)


def test_from_the_handover_on_a_checkpoint_counts_and_says_what_was_written_before(tmp_path: Path) -> None:
    root = LocalPlace(tmp_path)
    old, left = checkpoint(tmp_path, "old", batches=3, watermark=NOON), shadow(tmp_path)

    hand_over(LocalPlace(left), NOON)
    chosen = choose(root, "new", 9)
    seen = predecessor(root, "new"), closed_until(root, "new")
    chosen.forget_outdated()
    again = choose(root, "new", 10)

    assert (chosen.path.local, chosen.stand, chosen.written) == (left, None, NOON)
    assert (chosen.watermark, seen) == (NOON - MINUTE, (None, NOON - MINUTE))
    assert (old.exists(), again.path, again.written) == (False, chosen.path, NOON)


def test_the_checkpoint_of_a_shadow_is_removed_with_what_says_that_it_counts(tmp_path: Path) -> None:
    root, left = LocalPlace(tmp_path), shadow(tmp_path)
    hand_over(LocalPlace(left), NOON)

    later = choose(root, "later", 11)
    later.forget_outdated()

    assert (later.stand and later.stand.path.local, [*(tmp_path / "checkpoints").iterdir()]) == (left, [])


def test_a_checkpoint_that_is_gone_is_not_handed_over(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="SHADOW_LOST retryable"):
        hand_over(LocalPlace(tmp_path / "checkpoints" / "new~7"), NOON)


def test_event_times_are_told_to_the_microsecond() -> None:
    when = NOON + timedelta(microseconds=1)

    assert (instant(micros(when)), micros(NOON) % 1_000_000) == (when, 0)


def test_a_driver_writes_windows_up_to_its_boundary_and_none_behind_it(tmp_path: Path) -> None:
    boundary = Boundary(tmp_path, WINDOWS, NOON)
    free = boundary.is_reached(), boundary.is_passed(NOON + 5 * MINUTE)
    (tmp_path / rundir.BOUNDARY).write_text(str(micros(NOON + 2 * MINUTE)))

    before = [boundary.is_passed(NOON + MINUTE * part / 2) for part in range(7)]
    boundary.record_written(NOON + 1.5 * MINUTE)
    meanwhile = boundary.is_reached()
    boundary.record_written(NOON + 2.5 * MINUTE)

    assert (free, before) == ((False, False), [False] * 6 + [True])
    assert (meanwhile, boundary.is_reached(), boundary.is_passed(NOON + 2.5 * MINUTE)) == (False, True, True)


def test_a_boundary_that_was_passed_before_it_was_decided_is_reached(tmp_path: Path) -> None:
    (tmp_path / rundir.BOUNDARY).write_text(str(micros(NOON)))

    assert [Boundary(tmp_path, WINDOWS, at).is_reached() for at in (NOON, NOON + 3 * MINUTE, None)] == [
        True, True, False,
    ]  # fmt: skip
