"""The compiler emits what it emitted: a change is a decision, and another fingerprint makes a new state."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.golden.plans import FILES

KNOWN = {file: json.loads(file.read_text()) for file in FILES}


@pytest.fixture(scope="module", params=FILES, ids=[file.stem for file in FILES])
def file(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def now(file: Path) -> dict[str, Any]:
    """What the compiler makes of each query now."""
    make, _ = FILES[file]
    return make()


def test_every_query_that_is_accepted_has_its_plan_in_the_file(file: Path, now: dict[str, Any]) -> None:
    assert sorted(now) == sorted(KNOWN[file])


def test_a_query_compiles_to_the_same_plan(file: Path, now: dict[str, Any]) -> None:
    changed = [name for name, plan in KNOWN[file].items() if now.get(name) != plan]

    assert changed == []


def test_the_file_is_written_as_the_program_writes_it(file: Path) -> None:
    _, shown = FILES[file]

    assert file.read_text() == shown(KNOWN[file]) + "\n"
