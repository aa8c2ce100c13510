"""Joins of streams on real Kafka and Spark: exact over a kill in the middle, and with one silent side."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking
from tests.integration.cli import Cli, at_least
from tests.integration.faults import kill_driver

pytestmark = [pytest.mark.integration, pytest.mark.long]

SQL = """\
SELECT b.order_number AS tag_order, b.city_id AS tag_city, p.city_id AS answer, 1 AS n,
       b.rowtime AS window_timestamp
FROM asked b {kind} JOIN answered p ON b.order_number = p.order_number
 AND p.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '30' SECOND"""


@pytest.fixture(scope="session")
def cli(stack: Stack) -> Cli:
    return Cli(stack.state_dir)


def joined(asked: Bookings, answered: Bookings, folder: Path, kind: str) -> tuple[str, Path]:
    """A dagger over both streams."""
    streams = [
        {
            "table": table,
            "stream": of.name,
            "watermark_delay": "5s",
            "idle_timeout": "5s",
            "start": "earliest",
        }
        for table, of in (("asked", asked), ("answered", answered))
    ]
    return asked.dagger(folder, streams=streams, sql=SQL.format(kind=kind))


def pairs(rows: list[dict[str, Any]]) -> Counter[tuple[str, Any]]:
    return Counter((row["tags"]["tag_order"], row["fields"].get("answer")) for row in rows)


def test_a_left_join_is_exact_over_a_kill_and_tells_who_has_no_partner_when_the_other_side_is_silent(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    asked, answered = Bookings(stack.kafka, cli), Bookings(stack.kafka, cli)
    name, file = joined(asked, answered, tmp_path, "LEFT")
    seconds = range(0, 300, 3)
    # Every third is answered in time, every seventh too late.
    in_time = {second for second in seconds if second % 9 == 0}
    too_late = {second for second in seconds if second % 21 == 0} - in_time

    def ask(some: list[int]) -> None:
        asked.write(booking(second, city_id=1, order=f"o-{second}") for second in some)

    def answer(some: list[int]) -> None:
        answers = [(second + 10, second) for second in some if second in in_time]
        answers += [(second + 31, second) for second in some if second in too_late]
        answered.write(booking(at, city_id=2, order=f"o-{second}") for at, second in sorted(answers))

    first, second_half = [s for s in seconds if s < 150], [s for s in seconds if s >= 150]
    ask(first)
    answer(first)
    cli("apply", "-f", file, "--wait")
    cli.rows(name, enough=at_least(10))
    kill_driver(stack, name)
    # From now on the other side says nothing but what it still owes.
    ask(second_half)
    answer(second_half)
    rows = cli.rows(name, enough=at_least(len(seconds)))
    cli("delete", name, "--wait")

    assert pairs(rows) == Counter((f"o-{s}", 2 if s in in_time else None) for s in seconds)


def test_a_side_that_never_says_anything_holds_nobody_back(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    asked, answered = Bookings(stack.kafka, cli), Bookings(stack.kafka, cli)
    name, file = joined(asked, answered, tmp_path, "LEFT")

    asked.write(booking(second, order=f"o-{second}") for second in range(20))
    cli("apply", "-f", file, "--wait")
    rows = cli.rows(name, enough=at_least(20))
    cli("delete", name, "--wait")

    assert pairs(rows) == Counter((f"o-{second}", None) for second in range(20))


def test_an_inner_join_gives_each_pair_once(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    asked, answered = Bookings(stack.kafka, cli), Bookings(stack.kafka, cli)
    name, file = joined(asked, answered, tmp_path, "INNER")

    asked.write(booking(second, order=f"o-{second}") for second in range(30))
    answered.write(booking(second + 5, city_id=3, order=f"o-{second}") for second in range(0, 30, 2))
    cli("apply", "-f", file, "--wait")
    rows = cli.rows(name, enough=at_least(15))
    cli("delete", name, "--wait")

    assert pairs(rows) == Counter((f"o-{second}", 3) for second in range(0, 30, 2))
