"""Two minutes of real faults on the real stack: every row is right, and nothing is left."""

import re

import pytest
from tests.chaos.run import main

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.mark.timeout(1800)
def test_two_minutes_of_chaos_leave_every_row_right_and_nothing_behind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(minutes=2, seed=1)

    last = capsys.readouterr().out.splitlines()[-1]
    match = re.fullmatch(r"chaos seed 1: (\d+) faults, (\d+) rows recounted, 0 mismatches, 0 orphans", last)
    assert (code, bool(match)) == (0, True), last
    assert int(match[1]) >= 5
    assert int(match[2]) > 500
