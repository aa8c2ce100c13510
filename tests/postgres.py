"""A real PostgreSQL server of a test run's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from cli.errors import RefusedError
from devstack.demo import database


@contextmanager
def serving() -> Iterator[str]:
    """Its URL, without the name of a database. Skips the test where the machine has no server to start."""
    with ExitStack() as server:
        try:
            url = server.enter_context(database.serving())
        except RefusedError as problem:
            pytest.skip(problem.message)
        yield url
