"""An edit of each kind that touches state, on the real stack: its plan said what then happened."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from conftest import Stack
from tests.integration.cli import Cli
from tests.plantruth.edits import CLASSES, Dagger, classes, edited
from tests.plantruth.run import Truth


def test_edits_come_from_the_seed_and_every_class_is_among_them() -> None:
    told = classes(60, random.Random(1))
    again = classes(60, random.Random(1))

    assert told == again
    assert set(told) == set(CLASSES)
    assert {
        edited(Dagger(), each, random.Random(2)) == Dagger() for each in CLASSES if each != "nothing"
    } == {False}


def test_windows_are_recounted_by_hand() -> None:
    events = [(0, 1), (59, 1), (60, 2), (61, 1)]
    hop = Dagger(size=60, slide=20, function="SUM(city_id)")

    assert Dagger(factor=2).windows(events) == {(60, 1): 4, (120, 2): 2, (120, 1): 2}
    assert Dagger(without=1).windows(events) == {(120, 2): 1}
    assert Counter(end for end, city in hop.windows(events) if city == 2) == Counter([80, 100, 120])


@pytest.mark.integration
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_plans_of_edits_of_all_classes_tell_no_lie(stack: Stack, tmp_path: Path) -> None:
    said: list[str] = []
    truth = Truth(stack.kafka, Cli(stack.state_dir), tmp_path, seed=2, say=said.append)
    truth.live(classes(16, random.Random(2)))

    assert truth.lies == 0, said
