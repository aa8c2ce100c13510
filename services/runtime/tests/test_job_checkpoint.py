"""The checkpoint a launch uses: the same plan goes on, another one begins far enough back."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runtime.checkpoint import choose

MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def checkpoint(root: Path, fingerprint: str, *, batches: int, watermark: datetime | None) -> Path:
    """A checkpoint as Spark leaves it: batch n began at noon + n minutes and left this watermark."""
    path = root / "checkpoints" / fingerprint
    for log in ("commits", "offsets"):
        (path / log).mkdir(parents=True)
    for batch in range(batches):
        began = millis(NOON + batch * MINUTE)
        (path / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs":{began}}}\n{{"next":{{}}}}')
        mark = 0 if watermark is None or batch < batches - 1 else millis(watermark)
        (path / "commits" / str(batch)).write_text(f'v1\n{{"nextBatchWatermarkMs":{mark}}}')
        (path / "commits" / f".{batch}.crc").write_text("")
    return path


def test_the_first_launch_starts_where_the_streams_say(tmp_path: Path) -> None:
    chosen = choose(tmp_path, "abc", MINUTE)

    assert (chosen.path, chosen.start, chosen.outdated) == (tmp_path / "checkpoints" / "abc", None, ())


def test_an_unchanged_plan_goes_on_with_its_checkpoint(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "abc", batches=3, watermark=NOON)

    chosen = choose(tmp_path, "abc", MINUTE)

    assert (chosen.path, chosen.start, chosen.committed) == (path, None, True)


def test_a_changed_plan_starts_a_window_before_the_committed_watermark(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=12, watermark=NOON)

    chosen = choose(tmp_path, "def", 2 * MINUTE)

    assert (chosen.start, chosen.outdated, chosen.committed) == (NOON - 2 * MINUTE, (old,), False)


def test_a_forwarding_plan_starts_at_the_committed_watermark(tmp_path: Path) -> None:
    checkpoint(tmp_path, "abc", batches=1, watermark=NOON)

    assert choose(tmp_path, "def", timedelta()).start == NOON


def test_without_a_watermark_a_changed_plan_starts_when_the_last_committed_batch_began(
    tmp_path: Path,
) -> None:
    checkpoint(tmp_path, "abc", batches=3, watermark=None)

    assert choose(tmp_path, "def", MINUTE).start == NOON + 2 * MINUTE - MINUTE


def test_the_checkpoint_that_committed_last_decides(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=1, watermark=NOON + MINUTE)
    new = checkpoint(tmp_path, "def", batches=1, watermark=NOON)
    os.utime(old / "commits" / "0", (1000, 1000))
    os.utime(new / "commits" / "0", (2000, 2000))

    assert choose(tmp_path, "ghi", MINUTE).start == NOON - MINUTE


def test_a_checkpoint_that_never_committed_decides_nothing(tmp_path: Path) -> None:
    checkpoint(tmp_path, "abc", batches=0, watermark=None)

    assert choose(tmp_path, "def", MINUTE).start is None


def test_outdated_checkpoints_are_forgotten_and_the_own_one_stays(tmp_path: Path) -> None:
    old = checkpoint(tmp_path, "abc", batches=1, watermark=NOON)
    own = checkpoint(tmp_path, "def", batches=1, watermark=NOON)

    choose(tmp_path, "def", MINUTE).forget_outdated()

    assert (old.exists(), own.exists()) == (False, True)


def test_a_stream_whose_start_was_not_decided_before_a_crash_starts_as_far_back_as_the_others(
    tmp_path: Path,
) -> None:
    checkpoint(tmp_path, "abc", batches=3, watermark=NOON)
    (tmp_path / "checkpoints" / "def" / "source-start").mkdir(parents=True)

    assert choose(tmp_path, "def", MINUTE).start == NOON - MINUTE
