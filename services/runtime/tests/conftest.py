"""What the runtime's tests stand on, beside the real stack: a way to a service that can be cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.proxy import Proxy, port_of


@pytest.fixture(scope="session")
def influx(influx: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The database, its token in a file: what a launch may read."""
    return _readable(influx, tmp_path_factory)


@pytest.fixture(scope="session")
def influx2(influx2: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same of InfluxDB 2, where there is one."""
    return _readable(influx2, tmp_path_factory)


def _readable(database: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("secret") / "token"
    file.write_text(f"{database['token'] or 'user:password'}\n")
    return database | {"token_file": str(file)}


@pytest.fixture
def detour(influx: dict[str, str]) -> Iterator[Proxy]:
    """A way to the database that can be cut."""
    with Proxy(port_of(influx["url"])) as way:
        yield way
