"""A dagger on what another one writes: its rows, through a topic, are counted again, and right."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Stack
from tests.integration.bookings import Bookings, booking, spread, window_end
from tests.integration.cli import Cli, at_least, runs

pytestmark = [pytest.mark.integration, pytest.mark.long]

MINUTES = """\
SELECT city_id, COUNT(1) AS orders, MAX(CASE WHEN city_id = 1 THEN fare END) AS fare,
       TUMBLE_START(rowtime, INTERVAL '60' SECOND) AS window_start
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city_id"""
FIVE_MINUTES = """\
SELECT CAST(city_id AS STRING) AS tag_city, SUM(orders) AS orders, COUNT(1) AS minutes, COUNT(fare) AS fares,
       TUMBLE_END(rowtime, INTERVAL '5' MINUTE) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '5' MINUTE), city_id"""
BELOW_S = 300


def sum_by_city(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, int, int]]:
    return {
        (row["tags"]["tag_city"], row["window_timestamp"]): tuple(
            int(row["fields"][name]) for name in ("orders", "minutes", "fares")
        )  # type: ignore[misc]
        for row in rows
    }


def test_rows_of_a_dagger_are_counted_right_by_another_one_through_the_stream_that_was_offered(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    above, file = bookings.dagger(
        tmp_path, sql=MINUTES, sinks=[{"kafka": {"topic": f"json-{bookings.name}"}}]
    )
    first = cli("apply", "-f", file, "--wait")["generation"]
    offered = cli("stream", "offer", above, "--name", f"s-{bookings.name}")["stream"]
    cli.until(above, lambda dagger: runs(dagger) and dagger["generation"] > first)
    events = spread(range(0, 1_200, 3), cities=2)
    bookings.write(booking(second, city_id=city) for second, city in events)
    below, under = bookings.dagger(tmp_path, sql=FIVE_MINUTES)
    spec = yaml.safe_load(under.read_text())
    spec["streams"][0]["stream"] = offered["name"]
    under.write_text(yaml.safe_dump(spec, sort_keys=False))
    cli("apply", "-f", under, "--wait")
    expected = {
        (str(city), window_end(second, BELOW_S)): (orders, 5, 5 if city == 1 else 0)
        for (city, second), orders in Counter(
            (city, second // BELOW_S * BELOW_S) for second, city in events
        ).items()
    }
    rows = cli.rows(below, enough=at_least(len(expected)))
    for name in (below, above):
        cli("delete", name, "--wait")

    assert offered["writer"] == above
    assert sum_by_city(rows) == expected
