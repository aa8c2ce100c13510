"""A kind of sink is a folder entry for every member: nothing else lists kinds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kinds.drop import TREE, drop


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A copy of the tree with a sink more, and the environment in which it is found first."""
    folder = tmp_path_factory.mktemp("copy")
    first = [*map(str, drop(folder)), str(TREE)]
    return folder, {**os.environ, "PYTHONPATH": os.pathsep.join(first)}  # noqa: TID251 - a child's own


def run(module: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *module]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_sink_that_is_dropped_in_is_known_to_every_member(copy: tuple[Path, dict[str, str]]) -> None:
    done = run(["tests.kinds.dropped"], TREE, copy[1])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)

    assert found == {
        "refused": [["spec.sinks[0].dummy.place", "INVALID_PLACE"]],
        "default": {"dummy": {"place": "/tmp/a_dagger"}},
        "resolved": {"dummy": {"place": "/tmp/a_dagger"}},
        "columns": 3,
        "read": {"dummy": {"place": "/srv/rows"}},
        "shown": [{"dummy": {"place": "/srv/rows"}}],
        "help": True,
        "docs": True,
    }


def test_the_contract_of_sinks_finds_it_and_it_passes(copy: tuple[Path, dict[str, str]]) -> None:
    suite = ["services/runtime/tests/test_sink_contract.py", "-k", "dummy", "-v", "-p", "no:cacheprovider"]
    done = run(["pytest", *suite], *copy)

    assert done.returncode == 0, done.stdout
    assert "test_a_batch_that_is_repeated_leaves_the_same_rows[dummy] PASSED" in done.stdout
