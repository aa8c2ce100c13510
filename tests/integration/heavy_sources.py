"""Helpers of test_heavy_sources.py and of its neighbours."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.bookings import Bookings
from tests.integration.faults import records

WINDOW_S = 10
SQL = """\
SELECT city_id, count(1) AS n, MAX(CHAR_LENGTH(order_number)) AS longest,
       TUMBLE_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp
FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), city_id"""


def counting(stream: Bookings, folder: Path, **changes: Any) -> tuple[str, Path]:
    """A dagger that counts bookings of each city in ten seconds, into a topic of its name."""
    name, path = stream.dagger(folder, sql=SQL, **changes)
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    path.write_text(path.read_text().replace("influx: {}", f"kafka: {{topic: {name}, format: json}}"))
    return name, path


def rows(kafka: str, topic: str) -> list[tuple[Message, dict[str, Any]]]:
    """The rows of a topic, each with its record."""
    return [(record, json.loads(record.value() or b"")) for record in records(kafka, topic)]


def end_of(row: Mapping[str, Any]) -> int:
    """The end of a row's window, in seconds since the epoch."""
    return int(datetime.fromisoformat(row["window_timestamp"]).timestamp())


def counts(found: Iterable[tuple[Message, Mapping[str, Any]]]) -> Counter[tuple[int, int]]:
    """How many bookings each window (its end, in seconds since the epoch) and city has."""
    total: Counter[tuple[int, int]] = Counter()
    for _, row in found:
        total[end_of(row), row["city_id"]] += row["n"]
    return total


def recount(times: Iterable[tuple[float, int]]) -> Counter[tuple[int, int]]:
    """The same of (seconds since the epoch, city)."""
    return Counter(((int(at) // WINDOW_S + 1) * WINDOW_S, city) for at, city in times)
