"""What the integration tests share beside the stack."""

import pytest
from conftest import Stack
from tests.integration.cli import Cli


@pytest.fixture(scope="session")
def cli(stack: Stack) -> Cli:
    """The `daggers` command on the stack."""
    return Cli(stack.state_dir)
