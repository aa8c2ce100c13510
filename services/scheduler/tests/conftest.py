"""What tests of the scheduler share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from services.scheduler.tests.scheduler_world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A log and a host with real processes; all of them have ended behind the test."""
    world = World(tmp_path)
    yield world
    world.end()
