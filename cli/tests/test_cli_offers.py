"""A command makes a stream of what a dagger writes to Kafka."""

from __future__ import annotations

import json
from typing import Any

INFLUX = "  - influx:\n      measurement: orders\n"
KAFKA = "  - kafka:\n      topic: by-city\n"


def test_a_kafka_sink_is_offered_as_a_stream_that_another_dagger_reads(shell: Any, dagger_file: str) -> None:
    shell.fill()
    file = shell.file("dagger.yaml", dagger_file.replace(INFLUX, KAFKA))
    shell("apply", file)
    catalogue = shell("stream", "offer", "orders_by_city", "--dry-run")
    done = shell("stream", "offer", "orders_by_city", "--name", "city-counts", "-o", "json")
    listed = json.loads(shell("stream", "get", "city-counts", "-o", "json")[1])
    again = shell("stream", "offer", "orders_by_city", "--dry-run")[1]
    taken_back = shell("plan", file)[1]

    assert catalogue[1].splitlines()[0] == "what is offered:"
    assert "  optional int64 orders = 2;" in catalogue[1].splitlines()
    assert json.loads(done[1])["stream"]["name"] == "city-counts"
    assert (listed["topics"], listed["message"], listed["writer"]) == (
        ["by-city-rows"],
        "outputs.orders_by_city.Row",
        "orders_by_city",
    )
    assert again.splitlines()[1:] == [
        "topic by-city-rows is stream city-counts, its event time window_timestamp"
    ]
    assert "city-counts" not in taken_back  # nobody reads it yet


def test_a_new_column_is_a_further_field_by_the_file_that_is_to_be_applied(
    shell: Any, dagger_file: str
) -> None:
    shell.fill()
    rows = dagger_file.replace("orders_by_city", "grown").replace(INFLUX, KAFKA.replace("by-city", "grown"))
    shell("apply", shell.file("dagger.yaml", rows))
    shell("stream", "offer", "grown")
    message = "format: protobuf\n      message: outputs.grown.Row\n      topic: grown-rows"
    more = rows.replace("COUNT(1) AS orders", "COUNT(1) AS orders, MAX(price) AS most").replace(
        "topic: grown", message
    )
    file = shell.file("dagger.yaml", more)
    before, offered, after = (
        shell("apply", file),
        shell("stream", "offer", "grown", "--file", file),
        shell("apply", file),
    )

    assert (before[0], offered[0], after[0]) == (1, 0, 0), (offered, after)
    assert "outputs.grown.Row has no field most" in before[2]
    assert offered[1].splitlines()[0] == "message outputs.grown.Row is registered"


def test_a_dagger_without_kafka_has_nothing_to_offer(shell: Any, dagger_file: str) -> None:
    shell.fill()
    file = shell.file("dagger.yaml", dagger_file.replace("orders_by_city", "points"))
    shell("apply", file)

    code, _, printed = shell("stream", "offer", "points")

    assert (code, "has no sink of Kafka" in printed) == (1, True)
