"""Kafka sinks are offered as streams, and an edit of its writer says what its readers lose."""

from __future__ import annotations

from typing import Any

from daggers.v1 import gateway_pb2, spec_pb2

pb = gateway_pb2
JSON, PROTOBUF = spec_pb2.KafkaSink.FORMAT_JSON, spec_pb2.KafkaSink.FORMAT_PROTOBUF


def writer(samples: Any, **sink: Any) -> spec_pb2.DaggerSpec:
    """Build a dagger that writes to the topic `hourly`, as JSON unless something else is said."""
    spec: spec_pb2.DaggerSpec = samples.spec()
    del spec.sinks[:]
    spec.sinks.add(kafka=spec_pb2.KafkaSink(topic="hourly", **sink))
    return spec


def reader(samples: Any, sql: str) -> spec_pb2.DaggerSpec:
    spec: spec_pb2.DaggerSpec = samples.spec()
    del spec.streams[:]
    spec.streams.add(stream="by-city")
    spec.sql = sql
    return spec


async def offers(client: Any, spec: spec_pb2.DaggerSpec, name: str = "by-city") -> list[pb.OfferedStream]:
    request = pb.ValidateRequest(name=name, spec=spec, without_topics=True, offer_streams=True)
    return list((await client.daggers.Validate(request, timeout=10)).offered_streams)


async def accept(client: Any, spec: spec_pb2.DaggerSpec, name: str = "by-city") -> spec_pb2.Stream:
    """Do what a person does who accepts the offer for the only sink."""
    [offer] = await offers(client, spec, name)
    if offer.HasField("schema"):
        await client.catalog.RegisterSchema(pb.RegisterSchemaRequest(schema=offer.schema), timeout=10)
    if offer.HasField("further_sink"):
        spec.sinks.append(offer.further_sink)
    await client.daggers.ApplyDagger(pb.ApplyDaggerRequest(name=name, spec=spec), timeout=10)
    request = pb.RegisterStreamRequest(stream=offer.stream)
    answer = await client.catalog.RegisterStream(request, timeout=10)
    return spec_pb2.Stream.FromString(answer.stream.SerializeToString())


async def plan(client: Any, spec: spec_pb2.DaggerSpec, name: str = "by-city") -> list[str]:
    answer = await client.daggers.PlanDagger(pb.PlanDaggerRequest(name=name, spec=spec), timeout=20)
    return list(answer.warnings)


async def test_rows_of_json_are_offered_as_messages_of_a_topic_beside(ready: Any, samples: Any) -> None:
    [offer] = await offers(ready, writer(samples))

    assert offer.stream == spec_pb2.Stream(
        name="by-city",
        cluster="local",
        topics=["hourly-rows"],
        message="outputs.by_city.Row",
        time_field="window_timestamp",
        writer="by-city",
    )
    assert offer.further_sink.kafka == spec_pb2.KafkaSink(
        topic="hourly-rows", format=PROTOBUF, message="outputs.by_city.Row", cluster="local"
    )
    assert "optional int64 orders = 2;" in offer.text
    assert offer.sink == "kafka"


async def test_an_accepted_offer_is_a_stream_that_a_dagger_can_read(ready: Any, samples: Any) -> None:
    spec = writer(samples)
    stream = await accept(ready, spec)
    below = reader(
        samples,
        "SELECT tag_city, SUM(orders) AS orders, TUMBLE_END(rowtime, INTERVAL '1' HOUR) AS window_timestamp"
        " FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR), tag_city",
    )
    await ready.create(name="per-hour", spec=below)
    [again] = await offers(ready, spec)

    assert stream.writer == "by-city"
    assert (again.stream, again.HasField("schema"), again.HasField("further_sink")) == (stream, False, False)


async def test_a_new_column_is_offered_as_a_further_field_of_the_same_message(
    ready: Any, samples: Any
) -> None:
    spec = writer(samples)
    stream = await accept(ready, spec)
    spec.sql = spec.sql.replace("count(1) AS orders", "count(1) AS orders, max(place.lat) AS north")
    wrong = await ready.daggers.Validate(pb.ValidateRequest(name="by-city", spec=spec), timeout=10)
    [offer] = await offers(ready, spec)

    assert [found.code for found in wrong.findings] == ["UNKNOWN_FIELD"]
    assert offer.stream == stream
    assert "optional double north = 4;" in offer.text
    assert await accept(ready, spec) == stream


async def test_a_column_of_another_type_needs_another_name(ready: Any, samples: Any) -> None:
    spec = writer(samples)
    await accept(ready, spec)
    spec.sql = spec.sql.replace("count(1) AS orders", "max(city) AS orders")

    [offer] = await offers(ready, spec)

    assert offer.problem.startswith("Column orders is STRING, and its topic has records")
    assert not offer.HasField("stream")


async def test_a_query_without_a_time_is_told_what_it_needs(ready: Any, samples: Any) -> None:
    spec = writer(samples)
    spec.sql = "SELECT city FROM data_stream"

    [offer] = await offers(ready, spec)

    assert offer.problem.startswith("A stream needs an event time")


async def test_an_own_message_is_offered_as_it_is(ready: Any, samples: Any) -> None:
    [offer] = await offers(ready, writer(samples, format=PROTOBUF, message="shop.Summary"))

    assert (offer.stream.message, list(offer.stream.topics)) == ("shop.Summary", ["hourly"])
    assert (offer.HasField("schema"), offer.HasField("further_sink")) == (False, False)


async def test_columns_of_sensitive_fields_are_sensitive(ready: Any, samples: Any) -> None:
    stream = samples.stream()
    stream.sensitive.append("city")
    await ready.catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=10)

    [offer] = await offers(ready, writer(samples))

    assert list(offer.stream.sensitive) == ["tag_city"]


async def test_a_writer_that_does_not_write_is_refused(ready: Any, samples: Any, refusal: Any) -> None:
    await ready.create(name="by-city", spec=writer(samples))
    stream = samples.stream()
    reasons = []
    for name in ("nobody", "by-city"):
        stream.writer = name
        error = await refusal(
            ready.catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=10)
        )
        reasons.append([(violation.field, violation.reason) for violation in error.violations])

    assert reasons == [
        [("stream.writer", "NOT_FOUND")],
        [("stream.writer", "NOT_WRITTEN"), ("stream.writer", "NOT_WRITTEN")],
    ]


async def test_plan_says_which_readers_an_edit_breaks(ready: Any, samples: Any) -> None:
    spec = writer(samples)
    await accept(ready, spec)
    await ready.create(name="uses-orders", spec=reader(samples, "SELECT orders, rowtime FROM data_stream"))
    await ready.create(name="uses-cities", spec=reader(samples, "SELECT tag_city AS city FROM data_stream"))
    without_orders = spec_pb2.DaggerSpec.FromString(spec.SerializeToString())
    without_orders.sql = spec.sql.replace("count(1) AS orders,", "")
    without_time = spec_pb2.DaggerSpec.FromString(spec.SerializeToString())
    without_time.sql = spec.sql.partition(", TUMBLE_END")[0] + " FROM" + spec.sql.partition(" FROM")[2]
    elsewhere = writer(samples)
    messages = [await plan(ready, edit) for edit in (without_orders, without_time, elsewhere, spec)]

    assert messages == [
        ["stream by-city loses column orders, which is NULL from then on for uses-orders"],
        [
            "stream by-city loses its event time, window_timestamp: every record is quarantined by"
            " uses-cities, uses-orders"
        ],
        ["stream by-city gets no rows from it any more, and is read by uses-cities, uses-orders"],
        [],
    ]
