"""What the gateway says of Protobuf files before anything is registered."""

from __future__ import annotations

import asyncio
import zipfile
from io import BytesIO
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2 as pb

from api_gateway.validate.schema_compiling import MAX_PENDING, SchemaCompiler
from chassis.errors import ApiError
from protofiles import UploadedFile

ITEM = """syntax = "proto3";
package shop.v1;
// What is
// sold.
message Item {
  // As it is shown.
  string name = 1;
  // How much.
  message Price { int64 cents = 1; }
  Price price = 2;
}
"""
ORDER = (
    'syntax = "proto3";\npackage shop.v1;\nimport "shop/v1/item.proto";\nmessage Order { Item item = 1; }\n'
)


async def compile_schema(client: Any, files: dict[str, bytes]) -> pb.CompileSchemaResponse:
    request = pb.CompileSchemaRequest(
        files=[pb.SchemaFile(path=path, content=content) for path, content in files.items()]
    )
    answer: pb.CompileSchemaResponse = await client.catalog.CompileSchema(request, timeout=60)
    return answer


def zipped(files: dict[str, str]) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for path, text in files.items():
            opened.writestr(path, text)
    return buffer.getvalue()


async def test_an_archive_becomes_what_can_be_registered_and_nothing_is(client: Any) -> None:
    archive = zipped({"x/shop/v1/item.proto": ITEM, "x/shop/v1/order.proto": ORDER, "x/README.md": ""})

    answer = await compile_schema(client, {"shop.zip": archive})

    listed = await client.catalog.ListSchemas(pb.ListSchemasRequest(), timeout=10)
    assert [(one.name, one.comment) for one in answer.messages] == [
        ("shop.v1.Item", "What is sold."),
        ("shop.v1.Item.Price", "How much."),
        ("shop.v1.Order", ""),
    ]
    assert (list(answer.left_out), list(answer.problems), list(listed.messages)) == (["x/README.md"], [], [])


async def test_what_was_compiled_is_registered_as_it_is(client: Any) -> None:
    answer = await compile_schema(client, {"item.proto": ITEM.encode()})

    registered = await client.catalog.RegisterSchema(
        pb.RegisterSchemaRequest(schema=answer.schema), timeout=10
    )
    got = await client.catalog.GetSchema(
        pb.GetSchemaRequest(message="shop.v1.Item", min_sequence=registered.sequence), timeout=10
    )
    assert list(registered.messages) == [one.name for one in answer.messages]
    assert got.schema == answer.schema


async def test_everything_that_is_wrong_is_named_with_its_place(client: Any) -> None:
    answer = await compile_schema(
        client, {"order.proto": ORDER.encode(), "bad.proto": b"\n// \xff", "../a.proto": b""}
    )

    assert [(one.file, one.line, one.column, one.reason) for one in answer.problems] == [
        ("../a.proto", 0, 0, "INVALID_PATH"),
        ("bad.proto", 2, 4, "ENCODING"),
        ("order.proto", 3, 1, "MISSING_IMPORT"),
    ]
    assert (list(answer.missing_imports), answer.HasField("schema")) == (["shop/v1/item.proto"], False)


async def test_what_would_not_be_registered_is_a_problem(client: Any) -> None:
    first = await compile_schema(client, {"item.proto": ITEM.encode()})
    await client.catalog.RegisterSchema(pb.RegisterSchemaRequest(schema=first.schema), timeout=10)

    answer = await compile_schema(
        client, {"item.proto": ITEM.replace("string name = 1", "int32 name = 1").encode()}
    )
    empty = await compile_schema(client, {"item.proto": b'syntax = "proto3";'})

    assert answer.problems
    assert "shop.v1.Item" in answer.problems[0].message
    assert [one.reason for one in empty.problems] == ["REQUIRED"]


async def test_one_caller_cannot_fill_the_compiler() -> None:
    compiler = SchemaCompiler()
    file = UploadedFile("item.proto", ITEM.encode())
    first = [asyncio.create_task(compiler([file])) for _ in range(MAX_PENDING)]
    await asyncio.sleep(0)

    with pytest.raises(ApiError) as caught:
        await compiler([file])

    assert (caught.value.code, caught.value.reason) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "TOO_MANY_COMPILATIONS",
    )
    assert all(not one.problems for one in await asyncio.gather(*first))
