"""Templates over times of every year that a TIMESTAMP has: written, or missing with the reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from services.runtime.tests.sinkvalues import FIRST_US, LAST_US, TIME

from runtime.encode import template

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ANY = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(FIRST_US, LAST_US)
_ALL = [FIRST_US - 1, FIRST_US, None, LAST_US, LAST_US + 1, -(2**63), 2**63 - 1, 0]


@pytest.mark.parametrize("kind", [TIME, pa.timestamp("us")])
@given(times=st.lists(_ANY, max_size=8))
@example(times=_ALL)
def test_a_time_is_written_by_its_format_or_the_row_has_no_text_and_why(
    kind: pa.DataType, times: list[int | None]
) -> None:
    columns = {"t": pa.array(times, pa.int64()).cast(kind)}
    texts = template.texts("day ${t:%d.%m}", columns, len(times))
    fits = [time is not None and FIRST_US <= time <= LAST_US for time in times]

    assert texts == [
        f"day {_EPOCH + timedelta(microseconds=time or 0):%d.%m}" if fit else None
        for time, fit in zip(times, fits, strict=True)
    ]
    why = [template.why_missing(["", "day ${t:%d.%m}"], columns, row)[0] for row in range(len(times))]
    assert [reason for reason, fit in zip(why, fits, strict=True) if not fit] == [
        "TEMPLATE_NULL" if time is None else "OUT_OF_RANGE"
        for time, fit in zip(times, fits, strict=True)
        if not fit
    ]


def test_in_json_a_time_that_is_null_is_null_and_one_that_cannot_be_written_is_missing() -> None:
    columns = {"t": pa.array([0, None, LAST_US + 1], pa.int64()).cast(TIME)}

    assert [
        None if text is None else json.loads(text)
        for text in template.objects('{"day": "${t:%Y-%m-%d}"}', columns, 3)
    ] == [{"day": "1970-01-01"}, {"day": None}, None]
    assert [text is None for text in template.objects('{"day": "on ${t:%Y}"}', columns, 3)] == [
        False,
        True,
        True,
    ]
    assert template.why_missing(["${t:%Y-%m-%d}"], columns, 2) == (
        "OUT_OF_RANGE",
        "%Y-%m-%d writes the years 1 to 9999, and t is beyond them.",
    )
