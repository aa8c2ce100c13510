from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf import descriptor_pb2

pb = gateway_pb2
CODE = grpc.StatusCode


async def register_schema(client: Any, files: descriptor_pb2.FileDescriptorSet, **fields: Any) -> Any:
    request = pb.RegisterSchemaRequest(schema=spec_pb2.Schema(files=files), **fields)
    return await client.catalog.RegisterSchema(request, timeout=10)


async def test_a_registered_cluster_is_listed_with_its_defaults(client: Any, samples: Any) -> None:
    request = pb.RegisterClusterRequest(cluster=samples.cluster())
    answer = await client.catalog.RegisterCluster(request, timeout=10)
    listed = await client.catalog.ListClusters(
        pb.ListClustersRequest(min_sequence=answer.sequence), timeout=10
    )

    expected = samples.cluster()
    expected.influx.org = "-"
    assert (answer.version, list(listed.clusters), listed.sequence) == (1, [expected], answer.sequence)


async def test_a_cluster_is_replaced_and_its_version_counts(client: Any, samples: Any) -> None:
    cluster = samples.cluster()
    await client.catalog.RegisterCluster(pb.RegisterClusterRequest(cluster=cluster), timeout=10)
    cluster.spark_master = "spark://127.0.0.1:7077"
    answer = await client.catalog.RegisterCluster(
        pb.RegisterClusterRequest(cluster=cluster, expected_version=1), timeout=10
    )
    listed = await client.catalog.ListClusters(pb.ListClustersRequest(), timeout=10)

    assert (answer.version, [cluster.spark_master for cluster in listed.clusters]) == (
        2,
        ["spark://127.0.0.1:7077"],
    )


@pytest.mark.parametrize(
    ("registered", "expected", "code"),
    [(True, 0, CODE.ALREADY_EXISTS), (True, 7, CODE.ABORTED), (False, 1, CODE.NOT_FOUND)],
)
async def test_a_cluster_of_another_version_is_not_replaced(
    client: Any, samples: Any, refusal: Any, registered: bool, expected: int, code: grpc.StatusCode
) -> None:
    if registered:
        await client.catalog.RegisterCluster(pb.RegisterClusterRequest(cluster=samples.cluster()), timeout=10)
    request = pb.RegisterClusterRequest(cluster=samples.cluster(), expected_version=expected)

    error = await refusal(client.catalog.RegisterCluster(request, timeout=10))

    assert error.code == code


@pytest.mark.parametrize(
    ("master", "taken"),
    [
        ("local", True),
        ("local[*]", True),
        ("spark://a:7077,b:7077", True),
        ("yarn", True),
        ("k8s://https://api.example.com:6443", True),
        ("k8s://127.0.0.1:8001", True),
        ("yarn-client", False),
        ("k8s://https://api.example.com", False),
        ("spark://a", False),
        ("mesos://a:5050", False),
    ],
)
async def test_a_spark_master_is_one_that_drivers_can_be_submitted_to(
    client: Any, samples: Any, refusal: Any, master: str, taken: bool
) -> None:
    cluster = samples.cluster()
    cluster.spark_master = master
    asked = pb.RegisterClusterRequest(cluster=cluster, validate_only=True)

    if taken:
        said = [(await client.catalog.RegisterCluster(asked, timeout=10)).version]
    else:
        error = await refusal(client.catalog.RegisterCluster(asked, timeout=10))
        said = [violation.field for violation in error.violations]

    assert ("cluster.spark_master" in said) != taken


async def test_all_that_is_wrong_with_a_cluster_is_said_at_once(client: Any, refusal: Any) -> None:
    cluster = spec_pb2.Cluster(
        name="No",
        spark_master="yarn://somewhere",
        kafka=spec_pb2.KafkaAddress(
            bootstrap_servers="kafka",
            properties={
                "sasl.password": "hunter2",
                "sasl.jaas.config": "hunter2",
                "group.id": "mine",
                "plugin.library.paths": "/tmp/evil.so",
                "Bad Key": "x",
            },
            secret_properties={
                "ssl.key.password": spec_pb2.SecretRef(),
                "sasl.password": spec_pb2.SecretRef(env="NOT-A-NAME"),
            },
        ),
        influx=spec_pb2.InfluxAddress(
            url="http://me:hunter2@influx:8086", token=spec_pb2.SecretRef(file="relative")
        ),
    )
    request = pb.RegisterClusterRequest(cluster=cluster, request_id="ü", expected_version=-1)
    error = await refusal(client.catalog.RegisterCluster(request, timeout=10))

    said = {(violation.field.removeprefix("cluster."), violation.reason) for violation in error.violations}
    assert ("hunter2" in str(error) + str(error.violations), said) == (
        False,
        {
            ("name", "INVALID_NAME"),
            ("spark_master", "INVALID_ADDRESS"),
            ("kafka.bootstrap_servers", "INVALID_ADDRESS"),
            ('kafka.properties["sasl.password"]', "INLINE_SECRET"),
            ('kafka.properties["sasl.password"]', "DUPLICATE"),
            ('kafka.properties["sasl.jaas.config"]', "INLINE_SECRET"),
            ('kafka.properties["group.id"]', "FORBIDDEN_PROPERTY"),
            ('kafka.properties["plugin.library.paths"]', "FORBIDDEN_PROPERTY"),
            ('kafka.properties["Bad Key"]', "INVALID_PROPERTY"),
            ('kafka.secret_properties["ssl.key.password"]', "REQUIRED"),
            ('kafka.secret_properties["sasl.password"].env', "INVALID_REFERENCE"),
            ("influx.url", "INLINE_SECRET"),
            ("influx.token.file", "INVALID_REFERENCE"),
            ("request_id", "INVALID_REQUEST_ID"),
            ("expected_version", "OUT_OF_RANGE"),
        },
    )


async def test_a_cluster_of_nothing_is_refused(client: Any, refusal: Any) -> None:
    request = pb.RegisterClusterRequest(cluster=spec_pb2.Cluster(name="empty"))

    error = await refusal(client.catalog.RegisterCluster(request, timeout=10))

    assert [violation.field for violation in error.violations] == ["cluster"]


async def test_validate_only_registers_nothing(ready: Any, samples: Any) -> None:
    before = await ready.log.end()
    cluster, stream = samples.cluster(), samples.stream()
    cluster.name, stream.name = "other", "other"

    await ready.catalog.RegisterCluster(
        pb.RegisterClusterRequest(cluster=cluster, validate_only=True), timeout=10
    )
    await ready.catalog.RegisterStream(
        pb.RegisterStreamRequest(stream=stream, validate_only=True), timeout=10
    )
    answer = await register_schema(ready, samples.files(), validate_only=True)

    assert (len(answer.messages), await ready.log.end()) == (3, before)


async def test_a_schema_is_registered_under_all_its_messages_without_what_readers_do_not_need(
    client: Any, samples: Any
) -> None:
    answer = await register_schema(client, samples.files())
    listed = await client.catalog.ListSchemas(pb.ListSchemasRequest(min_sequence=answer.sequence), timeout=10)
    got = await client.catalog.GetSchema(pb.GetSchemaRequest(message="shop.Booking.Place"), timeout=10)

    names = ["shop.Booking", "shop.Booking.Place", "shop.Summary"]
    files = [(file.name, file.HasField("source_code_info")) for file in got.schema.files.file]
    assert (list(answer.messages), list(listed.messages), files) == (
        names,
        names,
        [("google/protobuf/timestamp.proto", False), ("shop/booking.proto", False)],
    )


async def test_a_message_nobody_registered_is_not_found(client: Any, refusal: Any) -> None:
    error = await refusal(client.catalog.GetSchema(pb.GetSchemaRequest(message="shop.Nothing"), timeout=10))

    assert (error.code, "shop.Nothing" in error.message) == (CODE.NOT_FOUND, True)


async def test_a_schema_that_breaks_readers_is_refused_with_every_break(
    ready: Any, refusal: Any, samples: Any
) -> None:
    files = samples.files()
    booking = files.file[0].message_type[0]
    booking.field[1].type = descriptor_pb2.FieldDescriptorProto.TYPE_INT64
    booking.field[2].number = 10
    del booking.field[0]

    error = await refusal(register_schema(ready, files))

    assert [violation.description for violation in error.violations] == [
        "shop.Booking.event_time (field 1) is gone: reserve 1, so that nobody uses it again",
        "shop.Booking.city (field 2) was string and is now int64",
        "shop.Booking.status (field 3) is gone: reserve 3, so that nobody uses it again",
        "shop.Booking.status (field 10) uses number 10, which is reserved",
        "shop.Booking.status (field 10) uses the name status of another field",
        "stream bookings needs event_time of shop.Booking, which is not there:"
        " shop.Booking has no field event_time",
    ]


async def test_a_compatible_newer_schema_takes_the_place_of_the_older(ready: Any, samples: Any) -> None:
    files = samples.files()
    files.file[0].message_type[0].field.add(
        name="price", number=5, label=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE
    )
    await register_schema(ready, files)

    got = await ready.catalog.GetSchema(pb.GetSchemaRequest(message="shop.Booking"), timeout=10)

    fields = [field.name for field in got.schema.files.file[1].message_type[0].field]
    assert fields == ["event_time", "city", "status", "place", "price"]


async def test_a_stream_is_found_by_its_message(ready: Any) -> None:
    mine = await ready.catalog.ListStreams(pb.ListStreamsRequest(message="shop.Booking"), timeout=10)
    other = await ready.catalog.ListStreams(pb.ListStreamsRequest(message="shop.Summary"), timeout=10)
    every = await ready.catalog.ListStreams(pb.ListStreamsRequest(), timeout=10)

    names = [[stream.name for stream in listed.streams] for listed in (mine, other, every)]
    assert names == [["bookings"], [], ["bookings"]]


async def test_all_that_is_wrong_with_a_stream_is_said_at_once(ready: Any, refusal: Any) -> None:
    stream = spec_pb2.Stream(
        name="x", cluster="nowhere", topics=["..", "ok", "ok"], message="shop.Booking", time_field="place.lat"
    )
    error = await refusal(ready.catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=10))

    assert [(violation.field, violation.reason) for violation in error.violations] == [
        ("stream.name", "INVALID_NAME"),
        ("stream.topics[0]", "INVALID_TOPIC"),
        ("stream.topics[2]", "DUPLICATE"),
        ("stream.cluster", "UNKNOWN_CLUSTER"),
        ("stream.time_field", "NOT_A_TIMESTAMP"),
    ]


@pytest.mark.parametrize("path", ["event_time", "place.seen"])
async def test_the_event_time_may_be_nested(ready: Any, samples: Any, path: str) -> None:
    stream = samples.stream()
    stream.time_field = path

    answer = await ready.catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=10)

    assert answer.version == 2


@pytest.mark.parametrize("path", ["city", "place", "place.", "event_time.seconds", "evnt_time"])
async def test_an_event_time_that_is_no_timestamp_is_refused(
    ready: Any, refusal: Any, samples: Any, path: str
) -> None:
    stream = samples.stream()
    stream.time_field = path

    error = await refusal(ready.catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=10))

    assert [violation.field for violation in error.violations] == ["stream.time_field"]


async def test_every_registration_is_done_once_per_request_id(ready: Any, samples: Any) -> None:
    cluster = pb.RegisterClusterRequest(cluster=samples.cluster(), request_id="c")
    stream = pb.RegisterStreamRequest(stream=samples.stream(), request_id="s")
    first = [
        await ready.catalog.RegisterCluster(cluster, timeout=10),
        await ready.catalog.RegisterStream(stream, timeout=10),
        await register_schema(ready, samples.files(), request_id="f"),
    ]
    end = await ready.log.end()
    second = [
        await ready.catalog.RegisterCluster(cluster, timeout=10),
        await ready.catalog.RegisterStream(stream, timeout=10),
        await register_schema(ready, samples.files(), request_id="f"),
    ]

    assert (second, await ready.log.end()) == (first, end)


@pytest.mark.parametrize("only", [False, True])
async def test_a_schema_too_large_for_the_log_is_refused_also_when_it_is_only_checked(
    client: Any, refusal: Any, samples: Any, only: bool
) -> None:
    files = samples.files()
    for number in range(12_000):
        files.file[0].message_type.add(name=f"A_message_with_quite_a_long_name_{number}")

    error = await refusal(register_schema(client, files, validate_only=only))

    assert [(v.field, v.reason) for v in error.violations] == [("schema.files", "TOO_LARGE")]


@pytest.mark.parametrize("method", ["ListClusters", "ListSchemas", "ListStreams"])
async def test_a_read_of_the_past_before_the_log_is_refused(client: Any, refusal: Any, method: str) -> None:
    request = getattr(pb, f"{method}Request")(min_sequence=-1)

    error = await refusal(getattr(client.catalog, method)(request, timeout=10))

    assert [violation.field for violation in error.violations] == ["min_sequence"]


async def test_a_read_waits_for_its_sequence(client: Any, samples: Any) -> None:
    waiting = asyncio.ensure_future(
        client.catalog.ListClusters(pb.ListClustersRequest(min_sequence=1), timeout=20)
    )
    for _ in range(2):
        await client.catalog.RegisterCluster(pb.RegisterClusterRequest(cluster=samples.cluster()), timeout=10)

    assert (await waiting).sequence == 1


async def test_a_read_that_cannot_wait_longer_says_where_the_state_is(
    ready: Any, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready.catalog.ListClusters(pb.ListClustersRequest(min_sequence=2), timeout=20)
    monkeypatch.setattr("api_gateway.state.reader._MARGIN_S", 9.5)
    request = pb.ListClustersRequest(min_sequence=999)

    error = await refusal(ready.catalog.ListClusters(request, timeout=10))

    assert (error.code, error.message) == (
        CODE.DEADLINE_EXCEEDED,
        "the state is at sequence 2, not at 999 yet",
    )
