"""An engine of the tests' own."""

from collections.abc import Iterator

import pytest
from tests.deploy.composed import Engine, engine


@pytest.fixture(scope="module")
def own_engine() -> Iterator[Engine]:
    """An engine of the tests' own."""
    with engine() as runs:
        yield runs
