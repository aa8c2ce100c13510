"""What an edited query takes for written, of what the query before it closed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from services.runtime.tests.sessions import planned

from runtime.launch.predecessor import predecessor_offsets
from runtime.state.checkpoint import Stand
from runtime.state.store.local import LocalPlace

CLOSED = datetime(2026, 1, 1, 12, tzinfo=UTC)
TUMBLE = "SELECT COUNT(1) AS n FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND)"
HOP = "SELECT COUNT(1) AS n FROM bookings GROUP BY HOP(rowtime, INTERVAL '20' SECOND, INTERVAL '60' SECOND)"
NESTED = """
SELECT COUNT(1) AS n
FROM (SELECT COUNT(1) AS n, TUMBLE_ROWTIME(rowtime, INTERVAL '60' SECOND) AS rt
      FROM bookings GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND)) AS minutes
GROUP BY TUMBLE(rt, INTERVAL '60' SECOND)"""


@pytest.mark.parametrize(
    ("sql", "less"),
    [
        pytest.param(TUMBLE, 0, id="TUMBLE"),
        pytest.param(HOP, 0, id="HOP"),
        pytest.param(NESTED, 120, id="two"),
    ],
)
def test_windows_of_one_size_are_taken_for_written_up_to_the_watermark(
    tmp_path: Path, sql: str, less: int
) -> None:
    stand = Stand(LocalPlace(tmp_path), {}, {}, CLOSED, 0)
    found = predecessor_offsets(stand, planned(sql, "bookings"), lambda _: None)

    assert found is not None
    assert found.closed == CLOSED - timedelta(seconds=less)
