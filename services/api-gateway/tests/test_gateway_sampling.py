"""Streams as their topics are: samples and missing topics, which a host of drivers looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, spec_pb2
from tests.samplehosts import FIT, MISSING, RATE, RECORD, Host, serving

from api_gateway.hosts import stream_samples
from api_gateway.hosts.client import HostAccess
from chassis.errors import ApiError, from_rpc_error

pb = gateway_pb2


def registering(samples: Any) -> pb.RegisterStreamRequest:
    return pb.RegisterStreamRequest(stream=samples.stream())


async def sampled(client: Any, **fields: Any) -> list[pb.SampleStreamResponse]:
    call = client.catalog.SampleStream(pb.SampleStreamRequest(name="bookings", **fields), timeout=20)
    return [step async for step in call]


async def refused(client: Any, **fields: Any) -> ApiError:
    with pytest.raises(grpc.RpcError) as caught:
        await sampled(client, **fields)
    return from_rpc_error(caught.value)


async def test_a_topic_that_is_not_there_is_said_when_its_stream_is_registered(
    harness: Any, samples: Any
) -> None:
    host = Host()
    async with serving(("a", host)) as log, harness.running(log) as client:
        await samples.fill(client)
        answer = await client.catalog.RegisterStream(registering(samples), timeout=20)

    assert [
        (finding.code, finding.severity, finding.field, finding.message) for finding in answer.findings
    ] == [
        (
            "TOPIC_MISSING",
            pb.SEVERITY_WARNING,
            "stream.topics[1]",
            "the Kafka of cluster local has no topic bookings-2: did you mean bookings-1?",
        )
    ]
    assert (answer.findings[0].suggestion, answer.topics_unchecked) == ("bookings-1", "")
    assert (host.asked[-1].host, host.asked[-1].last_records) == ("a", 10)
    assert host.asked[-1].min_sequence >= answer.sequence


async def test_a_dagger_that_reads_such_a_stream_is_warned_of_it_and_nobody_asks_twice_at_once(
    harness: Any, samples: Any
) -> None:
    host = Host()
    request = pb.ValidateRequest(name="completed", spec=samples.spec())
    async with serving(("a", host)) as log, harness.running(log) as client:
        await samples.fill(client)
        asked = len(host.asked)
        answers = [await client.daggers.Validate(request, timeout=20) for _ in range(5)]

    found = [[(finding.code, finding.field) for finding in answer.findings] for answer in answers]
    assert found == [[("TOPIC_MISSING", "spec.streams[0].stream")]] * 5
    assert len(host.asked) - asked <= 1


async def test_a_topic_of_other_messages_is_said_when_its_stream_is_registered_and_at_each_check(
    harness: Any, samples: Any
) -> None:
    other = pb.SampledRecord(topic="bookings-1", size=3, problem="it does not decode", mismatch=True)
    async with serving(("a", Host(record=other))) as log, harness.running(log) as client:
        await samples.fill(client)
        registered = await client.catalog.RegisterStream(registering(samples), timeout=20)
        checked = await client.daggers.Validate(
            pb.ValidateRequest(name="completed", spec=samples.spec()), timeout=20
        )

    assert [(finding.code, finding.field) for finding in registered.findings] == [
        ("MESSAGE_MISMATCH", "stream.message"),
        ("TOPIC_MISSING", "stream.topics[1]"),
    ]
    assert "bookings-1 seems to have another message" in registered.findings[0].message
    assert [found.code for found in checked.findings] == ["MESSAGE_MISMATCH", "TOPIC_MISSING"]


@pytest.mark.parametrize(
    ("unlike", "code", "said"),
    [
        (
            {"mismatch": True},
            "RECORDS_MISMATCH",
            "1 of the newest 2 records of the topic bookings-1 does not",
        ),
        (
            {"unknown": 0.5},
            "FIELDS_UNKNOWN",
            "25% of the bytes of the newest records of the topic bookings-1",
        ),
        ({"unknown": 0.3}, "", ""),
        ({"mismatch": True, "size": 0}, "", ""),
    ],
)
async def test_records_of_which_some_are_unlike_the_message_are_told_of_at_once(
    harness: Any, samples: Any, unlike: Any, code: str, said: str
) -> None:
    other = pb.SampledRecord(**{"topic": "bookings-1", "size": 3, **unlike})
    request = registering(samples)
    request.stream.topics[:] = ["bookings-1"]
    async with serving(("a", Host(lambda: None, None, RECORD, other))) as log, harness.running(log) as client:
        await samples.fill(client)
        registered = await client.catalog.RegisterStream(request, timeout=20)

    assert [found.code for found in registered.findings] == ([code] if code else [])
    assert said in "".join(found.message for found in registered.findings)


async def test_a_host_that_has_said_which_topics_there_are_may_take_long_for_records(
    harness: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_samples, "PATIENCE_S", 5.0)
    async with serving(("a", Host(slow=True))) as log, harness.running(log) as client:
        await samples.fill(client)
        answer = await client.catalog.RegisterStream(registering(samples), timeout=4)

    assert ([finding.code for finding in answer.findings], answer.topics_unchecked) == (["TOPIC_MISSING"], "")


async def test_where_no_host_answers_a_stream_is_registered_and_that_is_said(
    harness: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_samples, "PATIENCE_S", 0.2)
    silent = Host(lambda: asyncio.sleep(3600))
    async with serving(("a", silent)) as log, harness.running(log) as client:
        await samples.fill(client)
        late = await client.catalog.RegisterStream(registering(samples), timeout=20)
    async with harness.running(database_url=f"{harness.database_url}.2") as client:
        await samples.fill(client)
        alone = await client.catalog.RegisterStream(registering(samples), timeout=20)

    assert (late.version, list(late.findings)) == (2, [])
    assert late.topics_unchecked == "no host of drivers has answered in 0 s"
    assert alone.topics_unchecked == (
        "no scheduler has said where it serves: streams and sinks are reached from the hosts of drivers"
    )


async def test_the_newest_records_come_from_a_host(harness: Any, samples: Any) -> None:
    host = Host()
    async with serving(("a", host)) as log, harness.running(log) as client:
        await samples.fill(client)
        few, more = await sampled(client), await sampled(client, last_records=50)
        wrong = await refused(client, last_records=1001)

    assert [list(step.records) for step in few] == [[], [RECORD]]
    assert [each.last_records for each in host.asked[-2:]] == [10, 50]
    assert (list(more[0].missing_topics), host.asked[-1].stream.topics[0]) == ([MISSING], "bookings-1")
    assert [violation.field for violation in wrong.violations] == ["last_records"]


async def described(client: Any, **fields: Any) -> pb.DescribeStreamResponse:
    answer = await client.catalog.DescribeStream(
        pb.DescribeStreamRequest(name="bookings", **fields), timeout=20
    )
    assert len(answer.columns) > 0
    return answer


async def test_a_stream_is_described_with_what_its_topics_are_now_where_that_is_asked(
    harness: Any, samples: Any
) -> None:
    host = Host()
    async with serving(("a", host)) as log, harness.running(log) as client:
        await samples.fill(client)
        asked = len(host.asked)
        plain = await described(client)
        assert len(host.asked) == asked
        told = await described(client, topics=True)
    async with harness.running(database_url=f"{harness.database_url}.2") as client:
        await samples.fill(client)
        alone = await described(client, topics=True)

    assert (told.partitions, told.records_per_second, told.topics_unchecked) == (1, RATE, "")
    numbers = ("partitions", "records_per_second")
    assert not any(answer.HasField(name) for answer in (plain, alone) for name in numbers)
    assert plain.topics_unchecked == ""
    assert alone.topics_unchecked.startswith("no scheduler has said where it serves")


async def test_who_asks_what_topics_are_waits_longer_for_a_host_than_who_checks(
    harness: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_samples, "PATIENCE_S", 0.1)
    async with serving(("a", Host(lambda: asyncio.sleep(1)))) as log, harness.running(log) as client:
        await samples.fill(client)
        request = registering(samples)
        request.stream.topics[:] = ["bookings-1"]
        registered = await client.catalog.RegisterStream(request, timeout=20)
        monkeypatch.setattr(stream_samples, "FRESH_S", 0.0)
        await client.catalog.RegisterStream(request, timeout=20)
        told = await described(client, topics=True)

    assert registered.topics_unchecked == "no host of drivers has answered in 0 s"
    assert (told.partitions, told.records_per_second) == (1, RATE)


async def test_a_host_out_of_reach_is_passed_over_and_what_a_host_says_of_its_kafka_is_told(
    harness: Any, samples: Any
) -> None:
    def raising(reason: str) -> Callable[[], Any]:
        def answers() -> Any:
            code = grpc.StatusCode.UNAVAILABLE
            raise ApiError(code, reason, "Kafka at k:1 does not answer", {"host": "a"})

        return answers

    other = Host()
    async with (
        serving(("a", Host()), ("b", other)) as log,
        harness.running(log, host_access=HostAccess(here="b")) as client,
    ):
        await samples.fill(client)
        steps = await sampled(client)
    async with (
        serving(("a", Host(raising("KAFKA_UNREACHABLE"))), ("b", Host())) as log,
        harness.running(log, database_url=f"{harness.database_url}.2") as client,
    ):
        await samples.fill(client)
        error = await refused(client)

    assert (len(steps[-1].records), other.asked[-1].host) == (1, "b")
    assert (error.reason, error.message) == ("KAFKA_UNREACHABLE", "Kafka at k:1 does not answer")


async def test_a_stream_that_is_not_registered_names_the_nearest(harness: Any, samples: Any) -> None:
    async with harness.running() as client:
        await samples.fill(client)
        call = client.catalog.SampleStream(pb.SampleStreamRequest(name="booking"), timeout=20)
        with pytest.raises(grpc.RpcError) as caught:
            [step async for step in call]

    assert from_rpc_error(caught.value).message.endswith("did you mean bookings?")


async def test_topics_are_looked_into_by_a_host_and_the_gateway_says_which_streams_have_them(
    harness: Any, samples: Any
) -> None:
    host = Host()
    request = pb.DiscoverTopicsRequest(cluster="local", topics=["bookings-1", "others"])
    async with serving(("a", host)) as log, harness.running(log) as client:
        await samples.fill(client)
        steps = [step async for step in client.catalog.DiscoverTopics(request, timeout=20)]

    topics = {topic.topic: topic for step in steps for topic in step.topics}
    assert list(topics["bookings-1"].streams) == ["bookings"]
    assert list(topics["others"].streams) == []
    assert [topic.fits[0].example for topic in topics.values()] == [FIT.example] * 2
    assert (steps[-1].topics_read, host.discovered[0].request) == (2, request)


async def test_of_a_topic_with_sensitive_fields_no_record_is_shown(harness: Any, samples: Any) -> None:
    sensitive = registering(samples)
    sensitive.stream.sensitive.append("city")
    request = pb.DiscoverTopicsRequest(cluster="local")
    async with serving(("a", Host())) as log, harness.running(log) as client:
        await samples.fill(client)
        await client.catalog.RegisterStream(sensitive, timeout=20)
        steps = [step async for step in client.catalog.DiscoverTopics(request, timeout=20)]

    examples = {topic.topic: topic.fits[0].example for step in steps for topic in step.topics}
    assert examples == {"bookings-1": "", "others": FIT.example}


async def test_topics_of_messages_that_are_not_registered_are_looked_for(harness: Any, samples: Any) -> None:
    host, schema = Host(), spec_pb2.Schema(files=samples.files())
    request = pb.DiscoverTopicsRequest(cluster="local", schema=schema, message="shop.Booking", examples=5)
    async with serving(("a", host)) as log, harness.running(log) as client:
        await client.catalog.RegisterCluster(pb.RegisterClusterRequest(cluster=samples.cluster()), timeout=20)
        steps = [step async for step in client.catalog.DiscoverTopics(request, timeout=20)]
        listed = await client.catalog.ListSchemas(pb.ListSchemasRequest(), timeout=20)

    passed_on = host.discovered[0].request
    assert (steps[-1].topics_read, list(listed.messages)) == (2, [])
    assert (passed_on.examples, "shop.Booking" in passed_on.schema.messages) == (5, True)


async def test_of_a_topic_with_sensitive_fields_no_earlier_record_is_shown(
    harness: Any, samples: Any
) -> None:
    several = pb.MessageFit(message="shop.v1.Booking", example="{}", earlier_examples=["{}", "{}"])
    sensitive = registering(samples)
    sensitive.stream.sensitive.append("city")
    async with serving(("a", Host(fit=several))) as log, harness.running(log) as client:
        await samples.fill(client)
        await client.catalog.RegisterStream(sensitive, timeout=20)
        request = pb.DiscoverTopicsRequest(cluster="local", examples=3)
        steps = [step async for step in client.catalog.DiscoverTopics(request, timeout=20)]

    examples = {topic.topic: list(topic.fits[0].earlier_examples) for step in steps for topic in step.topics}
    assert examples == {"bookings-1": [], "others": ["{}", "{}"]}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"cluster": "nowhere"}, "NOT_FOUND"),
        ({"cluster": "local", "message": "shop.v1.Nothing"}, "NOT_FOUND"),
        ({"cluster": "local", "topics": ["t"] * 101}, "INVALID_FIELDS"),
        ({"cluster": "local", "examples": 11}, "INVALID_FIELDS"),
        ({"cluster": "local", "schema": {}}, "INVALID_FIELDS"),
    ],
)
async def test_what_cannot_be_looked_into_is_refused_before_a_host_is_asked(
    harness: Any, samples: Any, asked: dict[str, Any], reason: str
) -> None:
    host = Host()
    async with serving(("a", host)) as log, harness.running(log) as client:
        await samples.fill(client)
        with pytest.raises(grpc.RpcError) as caught:
            [
                step
                async for step in client.catalog.DiscoverTopics(pb.DiscoverTopicsRequest(**asked), timeout=20)
            ]

    assert (from_rpc_error(caught.value).reason, host.discovered) == (reason, [])
