"""What is still read of a broken record, and which paths and columns a message has."""

import json

import pytest
from daggers.v1 import spec_pb2
from google.protobuf import any_pb2, descriptor_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from daggerspec.protobuf import RECURSION_LIMIT
from runtime.decode.columns import arrow_schema, select
from runtime.decode.damage import prefix
from runtime.decode.json_text import renderer
from runtime.errors import JobError

CLUSTER = spec_pb2.Cluster.DESCRIPTOR
WHOLE = spec_pb2.Cluster(name="local", spark_master="local[2]", kafka={"bootstrap_servers": "k:1"})


def test_the_fields_before_the_damage_are_told() -> None:
    value = spec_pb2.Cluster(name="local", spark_master="local[2]").SerializeToString()

    assert json.loads(prefix(value + b"\x22\x05abc", CLUSTER)) == {
        "name": "local",
        "spark_master": "local[2]",
    }


def test_a_nested_defect_takes_its_field_and_all_behind_it() -> None:
    value = b"\x0a\x05local" + b"\x12\x03\x0a\x09x" + b"\x1a\x05spark"

    assert json.loads(prefix(value, CLUSTER)) == {"name": "local"}


def test_nothing_readable_is_nothing() -> None:
    assert [prefix(value, CLUSTER) for value in (b"", b"\xff", b"\x0a\x05ab", b"\x00")] == ["", "", "", ""]


@given(value=st.binary(max_size=200))
def test_no_bytes_break_the_reading_of_a_prefix(value: bytes) -> None:
    text = prefix(value, CLUSTER)

    assert text == "" or isinstance(json.loads(text), dict)


@given(cut=st.integers(0, len(WHOLE.SerializeToString())))
def test_a_record_cut_short_tells_fields_of_the_whole(cut: int) -> None:
    text = prefix(WHOLE.SerializeToString()[:cut], CLUSTER)
    told = json.loads(text or "{}")

    assert told.items() <= {
        "name": "local", "kafka": {"bootstrap_servers": "k:1"}, "spark_master": "local[2]"
    }.items()  # fmt: skip


def test_a_long_prefix_is_shortened_by_whole_fields() -> None:
    value = spec_pb2.Cluster(name="short", spark_master="x" * 100_000).SerializeToString()

    assert json.loads(prefix(value, CLUSTER)) == {"name": "short"}


def test_a_path_the_message_does_not_have_is_named() -> None:
    with pytest.raises(JobError, match=r"UNKNOWN_FIELD.*'kafka.nope'"):
        select(CLUSTER, ["kafka.nope"])


def test_paths_prune_nested_messages_and_a_whole_message_wins() -> None:
    narrow = from_arrow_schema(arrow_schema(select(CLUSTER, ["influx.url", "name"]))).simpleString()
    whole = from_arrow_schema(
        arrow_schema(select(CLUSTER, ["influx.url", "influx.token", "influx"]))
    ).simpleString()

    assert (narrow, whole) == (
        "struct<name:string,influx:struct<url:string>>",
        "struct<influx:struct<url:string,org:string,bucket:string,"
        "token:struct<env:string,file:string,name:string,addresses:array<string>>>>",
    )


def test_a_recursive_message_ends_where_it_is_cut() -> None:
    columns = select(descriptor_pb2.DescriptorProto.DESCRIPTOR, ["name", "nested_type"])
    schema = from_arrow_schema(arrow_schema(columns))
    depth, inner = 0, schema
    while "nested_type" in inner.fieldNames():
        below = inner["nested_type"].dataType.elementType
        assert isinstance(below, StructType)
        depth, inner = depth + 1, below

    assert depth == RECURSION_LIMIT


def test_json_text_of_what_stands_for_json() -> None:
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    packed, unknown = any_pb2.Any(), any_pb2.Any(type_url="type.googleapis.com/no.Such", value=b"\x01")
    packed.Pack(timestamp_pb2.Timestamp(seconds=1))
    struct = struct_pb2.Struct()
    struct.update({"b": [1, 2.5, None], "a": {"nan": float("nan")}})

    texts = [
        renderer(message.DESCRIPTOR.full_name, pool)(message.SerializeToString())
        for message in (struct, struct_pb2.Value(), packed, unknown)
    ]

    assert texts == [
        '{"a":{"nan":"nan"},"b":[1,2.5,null]}',
        "null",
        '{"@type":"type.googleapis.com/google.protobuf.Timestamp","value":"1970-01-01T00:00:01Z"}',
        '{"@type":"type.googleapis.com/no.Such","value":"AQ=="}',
    ]
