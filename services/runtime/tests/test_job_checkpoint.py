"""The checkpoint a launch uses: the same plan goes on, another one knows how far the one before had come."""

import json
import os
import subprocess
import sys
from pathlib import Path

from services.runtime.tests.job_checkpoint import BEGUN, MINUTE, NOON, checkpoint, millis

from runtime.source.offsets import Offsets, Partition
from runtime.source.planner.assignment import Assignment
from runtime.state.checkpoint import Stand, choose
from runtime.state.store.local import LocalPlace


def test_the_first_launch_starts_where_the_streams_say(tmp_path: Path) -> None:
    chosen = choose(LocalPlace(tmp_path), "abc", 1)

    assert (str(chosen.path), chosen.stand, chosen.outdated) == (f"{tmp_path}/checkpoints/abc", None, ())


def test_an_unchanged_plan_goes_on_with_its_checkpoint(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "abc", batches=3, watermark=NOON)

    chosen = choose(LocalPlace(tmp_path), "abc", 1)

    assert (chosen.path.local, chosen.stand, chosen.committed) == (path, None, True)
    assert chosen.watermark == NOON


def test_where_reading_began_is_where_each_topic_was_first(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=0, watermark=None)
    (old / "source-start" / "s0.json").unlink()
    later = Offsets({"t": "id-t", "u": "id-u"}, {Partition("t", 0): 90, Partition("u", 0): 3})
    for number, start in ((9, BEGUN), (10, later)):
        kept = Assignment(number, {"s": (start,)}, {})
        (old / "source-start" / str(number)).write_text(json.dumps(kept.as_json()))

    stand = choose(LocalPlace(tmp_path), "def", 1).stand

    assert stand is not None
    assert (stand.begun, stand.complete_from) == ({("id-t", 0): 5, ("id-u", 0): 3}, 7)


def test_a_changed_plan_knows_what_was_committed(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=12, watermark=NOON)
    # A batch that was planned and not committed will be read again.
    (old / "offsets" / "12").write_text((old / "offsets" / "11").read_text().replace("110", "120"))

    chosen = choose(LocalPlace(tmp_path), "def", 1)

    assert chosen.stand == Stand(LocalPlace(old), {("id-t", 0): 5}, {("id-t", 0): 110}, NOON, complete_from=7)
    assert (chosen.outdated, chosen.committed) == ((LocalPlace(old),), False)


def test_offsets_that_stand_behind_the_place_of_their_source_are_read_as_well(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=1, watermark=NOON)
    end = json.dumps(BEGUN.move_to({Partition("t", 0): 42}).as_json())
    (old / "offsets" / "0").write_text(f'v2\n{{"batchWatermarkMs":{millis(NOON)}}}\n0:{end}')

    assert choose(LocalPlace(tmp_path), "def", 1).stand == Stand(
        LocalPlace(old), {("id-t", 0): 5}, {("id-t", 0): 42}, NOON, complete_from=7
    )


def test_before_a_window_was_closed_a_changed_plan_knows_where_reading_began(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=3, watermark=None)

    assert choose(LocalPlace(tmp_path), "def", 1).stand == Stand(
        LocalPlace(old), {("id-t", 0): 5}, {("id-t", 0): 20}, None, complete_from=7
    )


def test_a_plan_changed_before_the_first_commit_begins_where_the_one_before_would_have(
    tmp_path: Path,
) -> None:
    old = checkpoint(tmp_path, "abc", batches=0, watermark=None)

    assert choose(LocalPlace(tmp_path), "def", 1).stand == Stand(
        LocalPlace(old), {("id-t", 0): 5}, {("id-t", 0): 5}, None, complete_from=7
    )


def test_the_checkpoint_that_committed_last_decides(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=1, watermark=NOON + MINUTE)
    new = checkpoint(tmp_path, "def", batches=1, watermark=NOON)
    checkpoint(tmp_path, "never", batches=0, watermark=None)
    os.utime(old / "commits" / "0", (1000, 1000))
    os.utime(new / "commits" / "0", (2000, 2000))
    stand = choose(LocalPlace(tmp_path), "ghi", 1).stand

    assert stand is not None
    assert (stand.path.local, stand.watermark) == (new, NOON)


def test_a_checkpoint_in_which_nothing_was_decided_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "abc" / "commits").mkdir(parents=True)

    assert choose(LocalPlace(tmp_path), "def", 1).stand is None


def test_outdated_checkpoints_are_forgotten_and_the_own_one_stays(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=1, watermark=NOON)
    own = checkpoint(tmp_path, "def", batches=1, watermark=NOON)

    choose(LocalPlace(tmp_path), "def", 1).forget_outdated()

    assert (old.exists(), sorted((tmp_path / "checkpoints").iterdir())) == (False, [own])


DIES_REMOVING = """
import os, sys
from pathlib import Path
from runtime.state.checkpoint import choose
from runtime.state.store.local import LocalPlace

removed = []

def die(event, _):
    removed.extend([event] * (event == "os.remove"))
    if len(removed) == 3:
        os._exit(9)

sys.addaudithook(die)
choose(LocalPlace(Path(sys.argv[1])), "def", 1).forget_outdated()
"""


def test_a_checkpoint_whose_removal_was_cut_short_is_none_when_its_plan_comes_back(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=12, watermark=NOON)
    new = checkpoint(tmp_path, "def", batches=1, watermark=NOON)
    killed = subprocess.run([sys.executable, "-c", DIES_REMOVING, tmp_path], check=False)
    left = len(list(old.rglob("*")))
    chosen = choose(LocalPlace(tmp_path), "abc", 1)

    assert (killed.returncode, left > 9) == (9, True)
    assert (chosen.path.local, old.exists(), chosen.committed) == (old, False, False)
    assert chosen.stand is not None
    assert chosen.stand.path.local == new


def test_a_stream_whose_start_was_not_decided_before_a_crash_starts_as_far_back_as_the_others(
    tmp_path: Path,
) -> None:
    old = checkpoint(tmp_path, "abc", batches=3, watermark=NOON)
    (tmp_path / "checkpoints" / "def" / "source-start").mkdir(parents=True)
    stand = choose(LocalPlace(tmp_path), "def", 1).stand

    assert stand is not None
    assert (stand.path.local, stand.watermark) == (old, NOON)
