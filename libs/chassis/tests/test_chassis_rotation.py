"""What files hold is read again when they change, and only then; what cannot be used changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from chassis.files import replace_text
from chassis.rotation import ReloadedValue


class Reading:
    """A number in a file, and what came of each reading."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.read = 0
        self.refused: list[str] = []
        self.changed = 0
        replace_text(file, "1")
        self.rotated = ReloadedValue(self._read, file, refused=self.refused.append, changed=self._changed)

    def _read(self) -> int:
        self.read += 1
        return int(self.file.read_text())

    def _changed(self) -> None:
        self.changed += 1


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path / "number")


def test_a_file_that_does_not_change_is_read_once(reading: Reading) -> None:
    answers = [reading.rotated() for _ in range(3)]

    assert (answers, reading.read, reading.changed) == ([1, 1, 1], 1, 0)


def test_a_file_that_was_replaced_is_read_again(reading: Reading) -> None:
    replace_text(reading.file, "2")
    answers = [reading.rotated() for _ in range(3)]

    assert (answers, reading.read, reading.changed) == ([2, 2, 2], 2, 1)


def test_what_cannot_be_used_is_refused_once_and_the_old_stays(reading: Reading) -> None:
    replace_text(reading.file, "two")
    answers = [reading.rotated() for _ in range(3)]
    (said,) = reading.refused
    replace_text(reading.file, "3")

    assert (answers, reading.rotated(), reading.changed) == ([1, 1, 1], 3, 1)
    assert "two" in said


def test_a_file_that_is_away_for_a_while_changes_nothing(reading: Reading) -> None:
    reading.file.unlink()
    away = reading.rotated()
    replace_text(reading.file, "4")

    assert (away, reading.rotated(), len(reading.refused)) == (1, 4, 1)


def test_the_first_reading_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ReloadedValue((tmp_path / "none").read_text, tmp_path / "none")
