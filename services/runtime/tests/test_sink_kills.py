"""Kill −9 at each step of each kind: what one process has written, and the next writes again, is counted."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
from services.runtime.tests import fresh
from services.runtime.tests.sink_contract import Bench, Counts, batch, case_of, many, on_servers

from runtime import sinks
from runtime.sinks import BatchRef, Part, Target

pytestmark = [pytest.mark.integration, pytest.mark.long]
ROWS: Final = 600
STEPS: Final = (
    "before it writes",
    "half of it is given",
    "all of it is given",
    "it is finished",
    "it is committed",
)


def half_and_half() -> tuple[Counts, Counts]:
    """The rows of a partition, in two Arrow batches."""
    rows = list(many(ROWS).items())
    return dict(rows[: ROWS // 2]), dict(rows[ROWS // 2 :])


def written(aimed: Target, generation: int) -> Iterator[None]:
    """Write a batch of one partition as a task does, and commit it as a driver does, step by step."""
    own = Part(BatchRef("c", 0, generation), 0)
    writer = sinks.open_writer(replace(aimed, part=own))
    yield
    for rows in half_and_half():
        assert writer.write(batch(rows), 0).refused in ([], ())
        yield
    end = writer.finish()
    assert end.refused in ([], ())
    yield
    sinks.commit(aimed, own.batch, [end.receipt] if end.receipt else [])
    yield


def killed_after(aimed: Target, step: str) -> None:
    """In a process of its own: a worker, and its driver, that came so far."""
    for reached, _ in zip(STEPS, written(aimed, generation=1), strict=True):
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(params=on_servers(name for name in sinks.names() if hasattr(case_of(name), "silence")))
def bench(request: pytest.FixtureRequest) -> Bench:
    """Of each kind with an address: what the others print ends with who printed it."""
    return Bench(request.param, request)


@pytest.mark.parametrize("step", STEPS)
def test_each_row_is_there_wherever_a_process_is_killed(bench: Bench, step: str) -> None:
    code = fresh.exit_code(killed_after, bench.target, step)
    for _ in written(bench.target, generation=2):
        pass

    assert code == -signal.SIGKILL
    assert bench.read() == many(ROWS)
