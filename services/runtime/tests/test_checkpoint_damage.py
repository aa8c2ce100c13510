"""What is missing of a checkpoint, and of the root of all: by what is in directories, without a Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.checkpoint_damage import committed, write

from daggerspec import anew
from runtime.errors import JobError
from runtime.launch import keeping
from runtime.launch.launch import Launch
from runtime.state import checkpoint, damage, root
from runtime.state.checkpoint_watch import CheckpointWatcher
from runtime.state.damage import can_read
from runtime.state.store.local import LocalPlace


def whole_root(home: Path, *, used: bool = False, has_own: bool = False) -> spec_pb2.CheckpointRoot:
    return spec_pb2.CheckpointRoot(root=str(home), used=used, has_own=has_own)


def empty(path: Path) -> None:
    """Remove all that is in a directory, as an unmounted disk does."""
    for entry in sorted(path.rglob("*"), reverse=True):
        entry.unlink() if entry.is_file() else entry.rmdir()


# ---- The root ----------------------------------------------------------------------------------------------


def test_a_root_that_was_never_used_is_marked(tmp_path: Path) -> None:
    root.settle(whole_root(tmp_path / "new"))

    assert (tmp_path / "new" / anew.MARKER).exists()


def test_a_used_root_without_its_marker_is_waited_for_and_nothing_is_written_there(tmp_path: Path) -> None:
    with pytest.raises(JobError) as missing:
        root.settle(whole_root(tmp_path, used=True))

    error = missing.value.error
    assert (error.reason, error.retryable, list(tmp_path.iterdir())) == (anew.ROOT_MISSING, True, [])


def test_a_root_of_an_earlier_version_is_marked_because_it_holds_a_checkpoint(tmp_path: Path) -> None:
    committed(tmp_path / "orders-7")
    root.settle(whole_root(tmp_path, used=True))

    assert (tmp_path / anew.MARKER).exists()


def test_what_a_driver_left_on_a_bare_mount_point_marks_no_root(tmp_path: Path) -> None:
    """Its disk went away while it ran, and Spark wrote the last commits beside nothing."""
    write(tmp_path / "orders-7" / "checkpoints" / "plan" / "commits" / "41")
    write(tmp_path / "orders-7" / "checkpoints" / "plan" / "offsets" / "41")

    with pytest.raises(JobError, match=anew.ROOT_MISSING):
        root.settle(whole_root(tmp_path, used=True))


def test_a_root_that_comes_back_is_gone_on_with(tmp_path: Path) -> None:
    root.settle(whole_root(tmp_path))
    (tmp_path / anew.MARKER).rename(tmp_path / "away")
    with pytest.raises(JobError, match=anew.ROOT_MISSING):
        root.settle(whole_root(tmp_path, used=True))
    (tmp_path / "away").rename(tmp_path / anew.MARKER)

    root.settle(whole_root(tmp_path, used=True))


# ---- One checkpoint ----------------------------------------------------------------------------------------


def test_a_checkpoint_that_is_whole_has_no_damage(tmp_path: Path) -> None:
    path = committed(tmp_path)
    write(path / "offsets" / "3")  # a batch that goes on
    own = LocalPlace(tmp_path)

    assert (damage.of(LocalPlace(path)), damage.of_launch(own, "plan")) == (None, None)


def test_an_edit_goes_by_the_checkpoint_before_it(tmp_path: Path) -> None:
    committed(tmp_path, name="before")

    assert damage.of_launch(LocalPlace(tmp_path), "after") is None


def remove(path: Path) -> None:
    empty(path)
    path.rmdir()


@pytest.mark.parametrize(
    ("harm", "reason", "words"),
    [
        (lambda path: remove(path), anew.GONE, "gone"),
        (lambda path: (path / "metadata").unlink(), anew.DAMAGED, "metadata"),
        (lambda path: remove(path / "commits"), anew.DAMAGED, "commits"),
        (lambda path: remove(path / "offsets"), anew.DAMAGED, "offsets"),
        (lambda path: remove(path / "source-start"), anew.DAMAGED, "source-start"),
        (lambda path: write(path / "offsets/2", ""), anew.DAMAGED, "`offsets/2` cannot be read"),
        (lambda path: write(path / "offsets/2", 'v1\n{"batchWater'), anew.DAMAGED, "`offsets/2` cannot"),
        (lambda path: write(path / "source-start/0", ""), anew.DAMAGED, "`source-start/0` cannot be read"),
        (lambda path: (path / "state/0/1/2.delta").unlink(), anew.DAMAGED, "version 3 of the state"),
        (lambda path: empty(path / "state/0/1"), anew.DAMAGED, "state/0/1 is gone"),
    ],
)
def test_what_is_missing_of_a_checkpoint_is_named(
    tmp_path: Path, harm: Callable[[Path], object], reason: str, words: str
) -> None:
    harm(committed(tmp_path))

    found = damage.of_launch(LocalPlace(tmp_path), "plan")

    assert found is not None
    assert (found.reason, words in found.detail) == (reason, True)


@pytest.mark.parametrize(
    ("names", "readable"),
    [
        ("1.delta 2.delta 3.delta", True),
        ("2.delta 3.delta", False),
        ("2.snapshot 3.delta", True),
        ("1.delta 2.delta", False),
        ("3.zip", True),
        ("2.zip 3.changelog", True),
        ("2_a1-b2.zip 3_a1-b2.changelog", True),
    ],
)
def test_a_version_of_a_state_is_read_from_a_whole_one_and_the_steps_behind_it(
    names: str, readable: bool
) -> None:
    assert can_read(names.split(), 3) is readable


# ---- What a launch believes --------------------------------------------------------------------------------


UNREADABLE = RuntimeError(
    "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_KEY_SIZE] Error reading delta file"
)


def launch(home: Path) -> Launch:
    """One whose rows are written over, and which has had a checkpoint."""
    spec = spec_pb2.JobSpec(checkpoint_root=str(home), checkpoints=whole_root(home, has_own=True))
    spec.spec.sinks.add(kafka=spec_pb2.KafkaSink(topic="rows"))
    return cast(Launch, SimpleNamespace(spec=spec, root=LocalPlace(home)))


def test_a_checkpoint_that_looks_whole_is_begun_anew_only_after_two_failures_in_a_row(tmp_path: Path) -> None:
    path = committed(tmp_path)
    one = launch(tmp_path)
    keeping.record_failure(one, UNREADABLE)
    assert keeping.begin(one, "plan") == ()
    committed(tmp_path, batches=4)  # it could be read after all
    keeping.record_failure(one, UNREADABLE)
    assert keeping.begin(one, "plan") == ()
    assert path.is_dir()
    keeping.record_failure(one, UNREADABLE)

    assert [anew.BEGUN in said for said in keeping.begin(one, "plan")] == [True]
    assert not path.is_dir()
    committed(tmp_path)
    assert keeping.begin(one, "plan") == ()


def test_what_the_watcher_misses_is_not_noted_and_what_is_missing_is_begun_anew_at_once(
    tmp_path: Path,
) -> None:
    path = committed(tmp_path)
    one = launch(tmp_path)
    damaged = damage.Damage(anew.DAMAGED, "for a moment").error(retryable=True)
    for _ in range(3):
        keeping.record_failure(one, damaged)
    assert keeping.begin(one, "plan") == ()

    remove(path / "commits")
    assert [anew.BEGUN in said for said in keeping.begin(one, "plan")] == [True]


def test_a_request_to_begin_anew_is_carried_out_once(tmp_path: Path) -> None:
    own = LocalPlace(tmp_path)
    committed(tmp_path)
    begun = [checkpoint.begin_anew(own, 4)]
    committed(tmp_path)
    begun.append(checkpoint.begin_anew(own, 4))

    assert (begun, len(checkpoint.counting(own))) == ([True, False], 1)
    assert checkpoint.begin_anew(own, 5)
    assert checkpoint.counting(own) == []


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda home: (home / anew.MARKER).unlink(), anew.ROOT_MISSING),
        (lambda home: home.rename(home.with_name("away")), anew.ROOT_MISSING),
        (lambda home: (home / "orders-7").rename(home / "away"), anew.GONE),
        (lambda home: (home / "orders-7/checkpoints/plan/commits").rename(home / "away"), anew.DAMAGED),
    ],
)
def test_a_driver_notices_what_vanishes_while_it_runs(
    tmp_path: Path, harm: Callable[[Path], object], reason: str
) -> None:
    root.settle(whole_root(tmp_path))
    path = committed(tmp_path / "orders-7")
    wake, ended = threading.Event(), threading.Event()
    watcher = CheckpointWatcher(
        LocalPlace(path), whole_root(tmp_path), active=lambda: True, wake=wake, ended=ended, period_s=0.01
    )
    try:
        watcher.follow()
        assert not wake.wait(0.1)
        watcher.check()
        harm(tmp_path)
        assert wake.wait(10)
    finally:
        ended.set()

    with pytest.raises(JobError) as noticed:
        watcher.check()
    assert (noticed.value.error.reason, noticed.value.error.retryable) == (reason, True)
