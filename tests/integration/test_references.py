"""A reference table through the whole platform: registered, refreshed, broken; it never ends a job."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, window_end
from tests.integration.cli import Cli, at_least

pytestmark = [pytest.mark.integration, pytest.mark.long]
SQL = """\
SELECT DartGet('{table}', CAST(city_id AS STRING), 0, 'elsewhere') AS tag_city,
       DistinctCount(order_number) AS orders,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream`
GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), DartGet('{table}', CAST(city_id AS STRING), 0, 'elsewhere')"""


def test_a_table_is_refreshed_and_the_last_good_version_outlives_a_broken_one(
    stack: Stack, tmp_path: Path
) -> None:
    cli = Cli(stack.state_dir)
    table = f"cities_{uuid4().hex[:8]}"
    places = stack.state_dir / "references"
    places.mkdir(exist_ok=True)
    file = places / f"{table}.json"
    file.write_text(json.dumps({"1": "Jakarta"}))
    cli("reference", "register", table, "--format", "json", "--location", file)
    bookings = Bookings(stack.kafka, cli)
    name, spec = bookings.dagger(tmp_path, sql=SQL.format(table=table))

    def minute(number: int, rows: int) -> list[tuple[str, str, int]]:
        """The rows of one more minute of three bookings, once there are `rows` of all minutes."""
        orders = ((1, "a"), (1, "a"), (2, "b"))
        bookings.write(
            booking(number * 60 + at, city_id=city, order=order) for at, (city, order) in enumerate(orders)
        )
        found = cli.rows(name, enough=at_least(rows))
        closed = window_end(number * 60)
        return sorted(
            (row["window_timestamp"], row["tags"]["tag_city"], row["fields"]["orders"])
            for row in found
            if row["window_timestamp"] == closed
        )

    cli("apply", "-f", spec, "--wait")
    first = minute(0, 2)
    shown = cli.until(name, lambda dagger: bool(dagger["references"]))["references"]
    file.write_text(json.dumps({"1": "Batavia", "2": "Bandung"}))
    second = minute(1, 4)
    refreshed = cli.until(name, lambda dagger: dagger["references"] != shown)
    file.write_text('{"1": "Bat')
    third = minute(2, 6)
    warned = cli.until(name, lambda dagger: "REFERENCE_STALE" in str(dagger["warnings"]))
    file.write_text(json.dumps({"1": "Batavia", "2": "Bandung"}))
    mended = cli.until(name, lambda dagger: dagger["phase"] == "RUNNING")
    cli("delete", name, "--wait")

    ends = [window_end(number * 60) for number in range(3)]
    assert first == [(ends[0], "Jakarta", 1), (ends[0], "elsewhere", 1)]
    assert second == [(ends[1], "Bandung", 1), (ends[1], "Batavia", 1)]
    assert third == [(ends[2], "Bandung", 1), (ends[2], "Batavia", 1)]
    assert (warned["phase"], warned["references"]) == ("DEGRADED", refreshed["references"])
    assert "REFERENCE_STALE" not in str(mended["warnings"])
    assert mended["generation"] == warned["generation"]
