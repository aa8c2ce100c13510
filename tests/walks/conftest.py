"""What the walks share: commands on the stack, and a line for who watches them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from conftest import Stack
from tests.integration.cli import Cli

Say = Callable[[str], None]


@pytest.fixture
def cli(stack: Stack) -> Cli:
    """The `daggers` command on the stack."""
    return Cli(stack.state_dir)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Print a line though pytest keeps what tests print."""

    def said(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}")
            sys.stdout.flush()

    return said
