"""Pages of the catalogue's lists."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf import descriptor_pb2

from chassis.errors import ApiError

pb = gateway_pb2


@pytest.fixture
async def filled(ready: Any, samples: Any) -> Any:
    """Five clusters and streams: local, bookings and four more of each."""
    for number in range(4):
        cluster, stream = samples.cluster(), samples.stream()
        cluster.name, stream.name = f"cluster-{number}", f"stream-{number}"
        await ready.catalog.RegisterCluster(pb.RegisterClusterRequest(cluster=cluster), timeout=10)
        await ready.catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=10)
    return ready


async def pages(call: Any, request: Any, field: str) -> list[list[str]]:
    found = []
    while True:
        answer = await call(request, timeout=10)
        found.append([getattr(each, "name", each) for each in getattr(answer, field)])
        if not answer.next_page_token:
            return found
        request.page_token = answer.next_page_token


@pytest.mark.parametrize(
    ("call", "request_", "field", "expected"),
    [
        (
            "ListClusters",
            pb.ListClustersRequest(page_size=2),
            "clusters",
            [["cluster-0", "cluster-1"], ["cluster-2", "cluster-3"], ["local"]],
        ),
        (
            "ListStreams",
            pb.ListStreamsRequest(page_size=4, message="shop.Booking"),
            "streams",
            [["bookings", "stream-0", "stream-1", "stream-2"], ["stream-3"]],
        ),
        (
            "ListSchemas",
            pb.ListSchemasRequest(page_size=1),
            "messages",
            [["shop.Booking"], ["shop.Booking.Place"], ["shop.Summary"]],
        ),
        ("ListReferences", pb.ListReferencesRequest(page_size=1), "references", [[]]),
        (
            "ListClusters",
            pb.ListClustersRequest(),
            "clusters",
            [["cluster-0", "cluster-1", "cluster-2", "cluster-3", "local"]],
        ),
    ],
)
async def test_the_pages_of_a_list_are_the_list(
    filled: Any, call: str, request_: Any, field: str, expected: list[list[str]]
) -> None:
    assert await pages(getattr(filled.catalog, call), request_, field) == expected


async def test_what_comes_between_two_pages_moves_none_of_the_others(filled: Any, samples: Any) -> None:
    first = await filled.catalog.ListStreams(pb.ListStreamsRequest(page_size=2), timeout=10)
    for name in ("aaa-new", "stream-1b"):
        stream = samples.stream()
        stream.name = name
        await filled.catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=10)
    request = pb.ListStreamsRequest(page_size=9, page_token=first.next_page_token)
    second = await filled.catalog.ListStreams(request, timeout=10)

    assert [stream.name for stream in first.streams] == ["bookings", "stream-0"]
    assert [stream.name for stream in second.streams] == ["stream-1", "stream-1b", "stream-2", "stream-3"]


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("ListClusters", pb.ListClustersRequest),
        ("ListSchemas", pb.ListSchemasRequest),
        ("ListStreams", pb.ListStreamsRequest),
        ("ListReferences", pb.ListReferencesRequest),
    ],
)
async def test_a_token_that_is_none_and_a_size_that_cannot_be_are_named(
    ready: Any, refusal: Any, call: str, request_: Any
) -> None:
    asked = request_(page_token="not one", page_size=-1)
    error: ApiError = await refusal(getattr(ready.catalog, call)(asked, timeout=10))

    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [(violation.field, violation.reason) for violation in error.violations] == [
        ("page_token", "INVALID_TOKEN"),
        ("page_size", "OUT_OF_RANGE"),
    ]


async def test_a_token_of_another_list_is_refused(filled: Any, refusal: Any) -> None:
    first = await filled.catalog.ListStreams(pb.ListStreamsRequest(page_size=2), timeout=10)
    asked = pb.ListStreamsRequest(page_token=first.next_page_token, message="shop.Booking")
    error = await refusal(filled.catalog.ListStreams(asked, timeout=10))

    assert [violation.field for violation in error.violations] == ["page_token"]


async def test_who_asks_for_no_page_is_answered_all(ready: Any) -> None:
    """Clients from before there were pages; a page has 100 by itself, where lists always had pages."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="many.proto", package="many", syntax="proto3")
    for number in range(120):
        file.message_type.add(name=f"M{number:03}")
    schema = pb.RegisterSchemaRequest(schema=spec_pb2.Schema(files=files))
    await ready.catalog.RegisterSchema(schema, timeout=10)
    answer = await ready.catalog.ListSchemas(pb.ListSchemasRequest(), timeout=10)

    assert [name for name in answer.messages if name.startswith("many.")] == [
        f"many.M{n:03}" for n in range(120)
    ]
    assert answer.next_page_token == ""


@pytest.mark.parametrize(
    ("kind", "call", "request_", "field"),
    [
        ("cluster", "ListClusters", pb.ListClustersRequest(), "clusters"),
        ("stream", "ListStreams", pb.ListStreamsRequest(), "streams"),
    ],
)
async def test_a_list_has_what_one_thing_is_read_as_at_the_sequence_of_both(
    filled: Any, kind: str, call: str, request_: Any, field: str
) -> None:
    listed = await getattr(filled.catalog, call)(request_, timeout=10)
    name = kind.capitalize()
    one = getattr(filled.catalog, f"Get{name}")
    read = [
        await one(getattr(pb, f"Get{name}Request")(name=each.name), timeout=10)
        for each in getattr(listed, field)
    ]

    assert [getattr(answer, kind) for answer in read] == list(getattr(listed, field))
    assert {answer.sequence for answer in read} == {listed.sequence}
