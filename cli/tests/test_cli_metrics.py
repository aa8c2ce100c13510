"""Minutes of a dagger, as the command prints them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from daggers.v1 import gateway_pb2

from cli.output.metrics_text import document, summarize

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def answer(**series: list[int]) -> gateway_pb2.ReadMetricsResponse:
    """Build the answer of a gateway, whose first minute begins at noon."""
    length = len(next(iter(series.values())))
    unknown = {
        name: [-1] * length
        for name in ("records", "rows", "lag", "late_rows", "quarantined", "freshness_p95_ms")
    }
    response = gateway_pb2.ReadMetricsResponse(**(unknown | series))
    response.begin.FromDatetime(NOON)
    return response


def test_each_minute_is_an_object_and_what_is_not_known_is_null() -> None:
    minutes = document("counts", answer(records=[3, -1], lag=[0, 7]))["minutes"]

    unknown = {"rows": None, "late_rows": None, "quarantined": None, "freshness_p95_ms": None}
    assert minutes == [
        {"time": "2026-01-01T12:00:00Z", "records": 3, "lag": 0, **unknown},
        {"time": "2026-01-01T12:01:00Z", "records": None, "lag": 7, **unknown},
    ]


def test_a_summary_leaves_out_the_minute_that_goes_on_and_draws_gaps() -> None:
    rows = summarize(
        answer(records=[1_000, -1, 3_500, 7_000, 9], freshness_p95_ms=[-1, -1, 1_500, 900, 1]),
        NOON + timedelta(minutes=4, seconds=30),
    )

    assert rows[0] == ("records", "7,000", "7,000", "11.5k", "▂ ▅█")
    assert rows[2] == ("lag", "-", "-", "-", "")
    assert rows[-1] == ("freshness p95", "0.9 s", "1.5 s", "-", "  █▅")


def test_a_day_is_drawn_without_losing_its_peak() -> None:
    records = [0] * 1_440
    records[700] = 5

    drawn = summarize(answer(records=records), NOON + timedelta(days=1))[0][-1]
    assert (len(drawn), drawn.count("█")) == (40, 1)


def test_a_dagger_that_nobody_heard_has_no_minutes(shell: Any, dagger_file: str) -> None:
    shell.fill()
    assert shell("apply", shell.file("dagger.yaml", dagger_file))[0] == 0

    code, out, _ = shell("metrics", "orders_by_city", "-o", "json")
    assert (code, json.loads(out)["minutes"]) == (0, [])
    code, _, err = shell("metrics", "orders_by_city")
    assert (code, err) == (0, "nothing is known of orders_by_city in these minutes\n")


def test_a_name_that_is_not_there_is_refused(shell: Any) -> None:
    assert shell("metrics", "nobody", "-o", "json")[0] == 1
