"""Heavy sources: records of many megabytes, one key that most records have, a backlog beside living daggers.

Each is recounted in plain Python; what each showed stands in docs/tested.md.
"""

import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import Stack
from tests.integration.bookings import NOON, Bookings, booking
from tests.integration.cli import Cli
from tests.integration.faults import lasting, records, until
from tests.integration.heavy_sources import WINDOW_S, counting, counts, end_of, recount, rows

pytestmark = [pytest.mark.integration, pytest.mark.long]

MIB = 2**20
# What the platform's own limit on a record lets a topic have, and a little for its key and headers.
LARGEST_MB = 20
BATCH = 50_000
# Seconds from a window's end to its row, beside a backlog: delay, trigger, two batches, on a busy machine.
IN_TIME_S = 60.0


def test_records_of_up_to_twenty_megabytes_are_counted_among_small_ones(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    stream = Bookings(
        stack.kafka, cli, config={"max.message.bytes": str((LARGEST_MB + 1) * MIB)},
        producer={"message.max.bytes": (LARGEST_MB + 1) * MIB},
    )  # fmt: skip
    name, path = counting(stream, tmp_path)
    sizes = [0.9, 0, 5, 0, 12, 0, LARGEST_MB, 0] * 2
    fed = [(NOON + second, size) for second, size in enumerate(sizes)]
    for second, size in enumerate(sizes):
        stream.write([booking(second, order="x" * int(size * 10**6))] + [booking(second)] * 20)

    cli("apply", "-f", path, "--wait")
    first = cli("get", name)["generation"]
    expected = recount((at, 1) for at, _ in fed for _ in range(21))
    until(lambda: counts(rows(stack.kafka, name)).total() >= expected.total(), deadline_s=300)
    found = rows(stack.kafka, name)
    shown = cli("get", name)
    cli("delete", name, "--wait")

    assert counts(found) == expected
    assert max(row["longest"] for _, row in found) == LARGEST_MB * 10**6
    assert (shown["phase"], shown["generation"]) == ("RUNNING", first)


def test_a_window_of_a_hundred_thousand_groups_and_one_that_has_most_records_is_exact(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    stream = Bookings(stack.kafka, cli, partitions=4)
    name, path = counting(stream, tmp_path)
    groups, most = 100_000, 900_000
    for number in range(most + groups):
        city = 0 if number < most else number - most + 1
        stream.produce(booking(number % WINDOW_S * 0.5, city_id=city), partition=number % 4)
    stream.flush()

    cli("apply", "-f", path, "--wait")
    first = cli("get", name)["generation"]
    until(lambda: len(records(stack.kafka, name)) >= groups + 1, deadline_s=420)
    found = counts(rows(stack.kafka, name))
    shown = cli("get", name)
    cli("delete", name, "--wait")

    assert Counter(found.values()) == Counter({1: groups, most: 1})
    assert (shown["phase"], shown["generation"]) == ("RUNNING", first)


@pytest.mark.timeout(1500)
def test_a_backlog_of_five_million_beside_living_daggers_leaves_their_windows_in_time(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    living, backlog = Bookings(stack.kafka, cli), Bookings(stack.kafka, cli, partitions=4)
    daggers = [counting(living, tmp_path) for _ in range(2)]
    for _, path in daggers:
        cli("apply", "-f", path, "--wait")
    total, hour = 5_000_000, 3600
    some = [booking(second, city_id=second % 7) for second in range(hour)]
    for number in range(total):
        backlog.produce(some[number * hour // total], partition=number % 4)
    backlog.flush()
    heavy, path = counting(backlog, tmp_path)
    fed: list[tuple[float, int]] = []

    cli("apply", "-f", path)
    expected = recount((NOON + n * hour // total, n * hour // total % 7) for n in range(total))
    deadline = time.monotonic() + 900
    while counts(rows(stack.kafka, heavy)) != expected:
        assert time.monotonic() < deadline, "the backlog is not read in a quarter of an hour"
        for _ in range(50):
            at = time.time()
            living.write([booking(at - NOON, city_id=len(fed) % 3)])
            fed.append((at, len(fed) % 3))
            lasting(0.1)
    closed = recount(fed)
    for name, _ in daggers:
        until(lambda name=name: counts(rows(stack.kafka, name)).total() >= len(fed), deadline_s=120)
    found = {name: rows(stack.kafka, name) for name, _ in daggers}
    for name in (*found, heavy):
        cli("delete", name, "--wait")

    assert [counts(each) for each in found.values()] == [closed, closed]
    delays = sorted(
        record.timestamp()[1] / 1000 - end_of(row) for each in found.values() for record, row in each
    )
    assert delays[int(len(delays) * 0.99)] < IN_TIME_S, delays[-5:]
