from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    try:
        parser.addoption("--kafka", default=None, help="bootstrap servers of a broker for integration tests")
    except ValueError:  # another member has added it
        return


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> str:
    """Bootstrap servers of a real broker."""
    address = request.config.getoption("--kafka")
    if not address:
        pytest.skip("no broker: pass --kafka HOST:PORT")
    return str(address)
