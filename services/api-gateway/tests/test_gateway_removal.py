"""Get and Delete of what is registered."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, spec_pb2

from chassis.errors import ApiError

pb = gateway_pb2
TABLE = spec_pb2.ReferenceTable(
    name="cities", format=spec_pb2.ReferenceTable.FORMAT_CSV, location="/data/tables/cities.csv"
)
GETS = [
    ("cluster", pb.GetClusterRequest, {"name": "local"}),
    ("stream", pb.GetStreamRequest, {"name": "bookings"}),
    ("reference", pb.GetReferenceRequest, {"name": "cities"}),
    ("message", pb.GetSchemaRequest, {"message": "shop.Summary"}),
]
DELETES = [
    ("cluster", pb.DeleteClusterRequest, {"name": "local"}),
    ("stream", pb.DeleteStreamRequest, {"name": "bookings"}),
    ("reference", pb.DeleteReferenceRequest, {"name": "cities"}),
    ("message", pb.DeleteSchemaRequest, {"message": "shop.Booking"}),
]


@pytest.fixture
async def filled(ready: Any) -> Any:
    """A gateway that knows one of each kind."""
    await ready.catalog.RegisterReference(pb.RegisterReferenceRequest(reference=TABLE), timeout=10)
    return ready


async def call(client: Any, request: Any) -> Any:
    method = type(request).__name__.removesuffix("Request")
    return await getattr(client.catalog, method)(request, timeout=20)


async def listed(client: Any) -> list[list[str]]:
    """The names of all that is registered, by kind, as the lists have them."""
    return [
        [cluster.name for cluster in (await call(client, pb.ListClustersRequest())).clusters],
        [stream.name for stream in (await call(client, pb.ListStreamsRequest())).streams],
        [reference.name for reference in (await call(client, pb.ListReferencesRequest())).references],
        list((await call(client, pb.ListSchemasRequest())).messages),
    ]


async def test_one_of_each_kind_is_shown_with_its_version(filled: Any, samples: Any) -> None:
    again = await call(filled, pb.RegisterClusterRequest(cluster=samples.cluster()))
    cluster = await call(filled, pb.GetClusterRequest(name="local", min_sequence=again.sequence))
    stream = await call(filled, pb.GetStreamRequest(name="bookings"))
    table = await call(filled, pb.GetReferenceRequest(name="cities"))

    assert (cluster.cluster, cluster.version, cluster.sequence) == (again.cluster, 2, again.sequence)
    assert (stream.stream, stream.version) == (samples.stream(), 1)
    assert (table.reference, table.version) == (TABLE, 1)


@pytest.mark.parametrize(("kind", "request_", "asked"), [*GETS, *DELETES])
async def test_what_is_not_registered_is_not_found_and_the_nearest_is_named(
    filled: Any, refusal: Any, kind: str, request_: Any, asked: dict[str, str]
) -> None:
    [(field, name)] = asked.items()
    error: ApiError = await refusal(call(filled, request_(**{field: name[:-1]})))

    assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
    assert error.metadata == {"kind": kind, "name": name[:-1], "suggestion": name}


async def test_what_nothing_uses_is_deleted_and_is_in_no_list(filled: Any) -> None:
    for _, request, asked in (*DELETES[1:], DELETES[0]):  # a stream names its cluster
        await call(filled, request(**asked))

    assert await listed(filled) == [[], [], [], ["shop.Booking.Place", "shop.Summary"]]


@pytest.mark.parametrize(
    ("request_", "users", "metadata"),
    [
        (
            pb.DeleteClusterRequest(name="local"),
            "cluster local is used by stream bookings, dagger completed_bookings",
            {
                "kind": "cluster",
                "name": "local",
                "count": "2",
                "streams": "bookings",
                "daggers": "completed_bookings",
            },
        ),
        (
            pb.DeleteStreamRequest(name="bookings"),
            "stream bookings is used by dagger completed_bookings",
            {"kind": "stream", "name": "bookings", "count": "1", "daggers": "completed_bookings"},
        ),
        (
            pb.DeleteSchemaRequest(message="shop.Booking"),
            "message shop.Booking is used by stream bookings",
            {"kind": "message", "name": "shop.Booking", "count": "1", "streams": "bookings"},
        ),
        (
            pb.DeleteReferenceRequest(name="cities"),
            "reference table cities is used by dagger completed_bookings",
            {"kind": "reference", "name": "cities", "count": "1", "daggers": "completed_bookings"},
        ),
    ],
)
async def test_what_is_used_stays_and_its_users_are_named(
    filled: Any, refusal: Any, samples: Any, request_: Any, users: str, metadata: dict[str, str]
) -> None:
    spec = samples.spec()
    spec.sql = samples.query.replace("FROM", ", MAX(DartGet('cities', city)) AS owner FROM")
    await filled.create(spec=spec)
    before, end = await listed(filled), await filled.log.end()

    error: ApiError = await refusal(call(filled, request_))

    assert (error.code, error.reason, error.metadata) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "IN_USE",
        metadata,
    )
    assert error.message == f"{users}: delete or change what uses it first"
    assert (await listed(filled), await filled.log.end()) == (before, end)


@pytest.mark.parametrize(("kind", "request_", "asked"), DELETES[1:3])
async def test_a_delete_that_is_to_be_checked_only_removes_nothing(
    filled: Any, refusal: Any, kind: str, request_: Any, asked: dict[str, str]
) -> None:
    before, end = await listed(filled), await filled.log.end()
    answer = await call(filled, request_(**asked, validate_only=True))
    used = await refusal(call(filled, pb.DeleteClusterRequest(name="local", validate_only=True)))

    assert (answer.sequence, used.reason) == (0, "IN_USE")
    assert (await listed(filled), await filled.log.end()) == (before, end)


@pytest.mark.parametrize(("kind", "request_", "asked"), DELETES[1:3])
async def test_a_delete_that_is_repeated_is_one_and_has_one_answer(
    filled: Any, samples: Any, kind: str, request_: Any, asked: dict[str, str]
) -> None:
    first = await call(filled, request_(**asked, request_id="mine"))
    again = {
        "stream": pb.RegisterStreamRequest(stream=samples.stream()),
        "reference": pb.RegisterReferenceRequest(reference=TABLE),
    }
    registered = await call(filled, again[kind])
    second = await call(filled, request_(**asked, request_id="mine"))

    assert (second, registered.version) == (first, 2)
    assert (await listed(filled))[1:3] == [["bookings"], ["cities"]]


async def test_a_version_from_before_the_removal_is_never_met_again(
    filled: Any, refusal: Any, samples: Any
) -> None:
    await call(filled, pb.DeleteStreamRequest(name="bookings", expected_version=1))
    await call(filled, pb.RegisterStreamRequest(stream=samples.stream(), expected_version=0))
    error = await refusal(call(filled, pb.DeleteStreamRequest(name="bookings", expected_version=1)))

    assert (error.code, error.reason) == (grpc.StatusCode.ABORTED, "VERSION_MISMATCH")
    assert error.metadata == {
        "kind": "stream",
        "name": "bookings",
        "expected_version": "1",
        "actual_version": "2",
    }


async def test_everything_wrong_with_a_delete_is_said_at_once(filled: Any, refusal: Any) -> None:
    request = pb.DeleteStreamRequest(name="bookings", request_id="a b", expected_version=-1)
    error = await refusal(call(filled, request))

    assert [violation.field for violation in error.violations] == ["request_id", "expected_version"]


async def test_a_gateway_that_starts_anew_knows_what_was_removed(
    harness: Any, samples: Any, refusal: Any
) -> None:
    first = await harness.start()
    await samples.fill(first)
    await call(first, pb.DeleteStreamRequest(name="bookings"))
    before = await listed(first)
    second = await harness.start(first.log)
    again = await call(second, pb.RegisterStreamRequest(stream=samples.stream()))

    assert (await listed(second))[1:] == [["bookings"], *before[2:]]
    assert again.version == 2


async def test_of_a_delete_and_a_register_at_once_both_are_answered(filled: Any, samples: Any) -> None:
    async with asyncio.timeout(30):
        await asyncio.gather(
            call(filled, pb.DeleteStreamRequest(name="bookings")),
            call(filled, pb.RegisterStreamRequest(stream=samples.stream())),
        )
    found = (await call(filled, pb.ListStreamsRequest())).streams

    assert [each.name for each in found] in ([], ["bookings"])
