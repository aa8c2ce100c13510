"""Look before you write: streams as queries see them, schemas as text, and names that were meant."""

from typing import Any

import pytest
from daggers.v1 import gateway_pb2 as pb
from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2, text_format

from api_gateway.validate import proto_text, schemas


async def test_a_stream_is_described_by_the_columns_that_a_query_has(ready: Any) -> None:
    answer = await ready.catalog.DescribeStream(pb.DescribeStreamRequest(name="bookings"), timeout=10)

    assert answer.stream.message == "shop.Booking"
    assert [(column.path, column.type, column.protobuf_type) for column in answer.columns] == [
        ("event_time", "TIMESTAMP", "google.protobuf.Timestamp"),
        ("city", "STRING", "string"),
        ("status", "STRING", "shop.Status"),
        ("place", "STRUCT", "shop.Booking.Place"),
        ("place.lat", "DOUBLE", "double"),
        ("place.seen", "TIMESTAMP", "google.protobuf.Timestamp"),
        ("rowtime", "TIMESTAMP", ""),
        ("__topic", "STRING", ""),
        ("__partition", "INT", ""),
        ("__offset", "BIGINT", ""),
        ("__timestamp", "TIMESTAMP", ""),
    ]
    status = answer.columns[2]
    assert [(value.name, value.number) for value in status.enum_values] == [("UNKNOWN", 0), ("COMPLETED", 1)]
    assert (status.example, answer.truncated, answer.sequence > 0) == ("status = 'COMPLETED'", False, True)
    assert answer.first_query.startswith("SELECT status AS tag_status,")
    assert "FROM `bookings`" in answer.first_query


async def test_a_field_is_described_with_what_its_proto_file_says_of_it(client: Any, samples: Any) -> None:
    files = samples.files()
    info = next(file for file in files.file if file.name == "shop/booking.proto").source_code_info
    info.location.add(path=[4, 0, 2, 1], leading_comments=" Where it was\n booked.\n")
    info.location.add(path=[4, 0, 3, 0, 2, 0], trailing_comments=" Degrees north. ")
    info.location.add(path=[4, 0, 2, 99], leading_comments="of no field")
    await samples.fill(client)
    await client.catalog.RegisterSchema(
        pb.RegisterSchemaRequest(schema=spec_pb2.Schema(files=files)), timeout=10
    )
    answer = await client.catalog.DescribeStream(pb.DescribeStreamRequest(name="bookings"), timeout=10)

    said = {column.path: column.comment for column in answer.columns if column.comment}
    assert said == {"city": "Where it was booked.", "place.lat": "Degrees north."}


def test_comments_that_are_too_long_are_left_out_and_the_schema_is_not(samples: Any) -> None:
    files = samples.files()
    own = next(file for file in files.file if file.name == "shop/booking.proto")
    for number in range(200):
        own.message_type[0].field.add(name=f"f{number}", number=100 + number, label=1, type=9)
        place = len(own.message_type[0].field) - 1
        own.source_code_info.location.add(path=[4, 0, 2, place], leading_comments="x" * 5_000)

    kept = schemas.prune(files)

    assert kept.files.ByteSize() < schemas.MAX_COMMENTS
    assert "shop.Booking" in kept.messages


async def test_a_schema_is_shown_as_proto_text(ready: Any) -> None:
    answer = await ready.catalog.GetSchema(pb.GetSchemaRequest(message="shop.Booking.Place"), timeout=10)

    assert (
        answer.text
        == """\
// shop/booking.proto
syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";

enum Status {
  UNKNOWN = 0;
  COMPLETED = 1;
}

message Booking {
  message Place {
    double lat = 1;
    google.protobuf.Timestamp seen = 2;
  }
  google.protobuf.Timestamp event_time = 1;
  string city = 2;
  Status status = 3;
  Booking.Place place = 4;
  reserved 10 to 11;
  reserved "old_city";
}
"""
    )


def test_labels_oneofs_and_maps_are_written_as_in_a_proto_file() -> None:
    files = text_format.Parse(
        """
        file {
          name: "a.proto" syntax: "proto3"
          message_type {
            name: "A"
            field { name: "x" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 1
                    proto3_optional: true }
            field { name: "y" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
            field { name: "z" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".A"
                    oneof_index: 0 }
            field { name: "m" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".A.MEntry" }
            field { name: "n" number: 5 label: LABEL_REPEATED type: TYPE_BYTES }
            nested_type {
              name: "MEntry" options { map_entry: true }
              field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
              field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".A" }
            }
            oneof_decl { name: "either" } oneof_decl { name: "_x" }
          }
          message_type { name: "Other" }
        }
        """,
        descriptor_pb2.FileDescriptorSet(),
    )

    assert (
        proto_text.message(files, "A")
        == """\
// a.proto
syntax = "proto3";

message A {
  optional int32 x = 1;
  oneof either {
    string y = 2;
    A z = 3;
  }
  map<string, A> m = 4;
  repeated bytes n = 5;
}
"""
    )


@pytest.mark.parametrize(
    ("call", "request_", "kind", "name", "meant"),
    [
        ("DescribeStream", pb.DescribeStreamRequest(name="booking"), "stream", "booking", "bookings"),
        ("GetSchema", pb.GetSchemaRequest(message="shop.booking"), "message", "shop.booking", "shop.Booking"),
    ],
)
async def test_what_is_not_registered_names_what_may_be_meant(
    ready: Any, refusal: Any, call: str, request_: Any, kind: str, name: str, meant: str
) -> None:
    error = await refusal(getattr(ready.catalog, call)(request_, timeout=10))

    assert (error.code.name, error.metadata) == (
        "NOT_FOUND",
        {"kind": kind, "name": name, "suggestion": meant},
    )
    assert error.message.endswith(f"is not registered: did you mean {meant}?")


async def test_a_stream_of_misspelt_names_is_told_each_that_may_be_meant(ready: Any, refusal: Any) -> None:
    wrong = (
        spec_pb2.Stream(cluster="lokal", message="shop.Bookings", time_field="x"),
        spec_pb2.Stream(cluster="local", message="shop.Booking", time_field="evnt_time"),
        spec_pb2.Stream(cluster="local", message="shop.Booking", time_field="plce.seen"),
    )
    found = []
    for stream in wrong:
        stream.name, stream.topics[:] = "others", ["t"]
        call = ready.catalog.RegisterStream(pb.RegisterStreamRequest(stream=stream), timeout=10)
        found += [(violation.field, violation.suggestion) for violation in (await refusal(call)).violations]

    assert found == [
        ("stream.cluster", "local"),
        ("stream.message", "shop.Booking"),
        ("stream.time_field", "event_time"),
        ("stream.time_field", "place.seen"),
    ]
