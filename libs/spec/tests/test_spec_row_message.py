"""The message of a query's rows: what is built takes the rows, and a registered one only grows."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st

from daggerspec import fit
from daggerspec.columns import Column, Role
from daggerspec.rowmessage import NotExpressible, build_file

SCALARS = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "boolean",
    "string",
    "binary",
    "timestamp",
    "interval day to second",
    "decimal(20,0)",
    "decimal(10,0)",
    "decimal(30,4)",
)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True).filter(lambda name: not name.endswith("_"))


def columns(*pairs: tuple[str, str]) -> list[Column]:
    return [Column(name, Role.FIELD, name, kind) for name, kind in pairs]


def message(file: descriptor_pb2.FileDescriptorProto) -> Descriptor:
    pool = DescriptorPool()
    for module in (timestamp_pb2, duration_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName("outputs.a.Row")


def values(depth: int) -> st.SearchStrategy[str]:
    scalar = st.sampled_from(SCALARS)
    if depth == 0:
        return scalar
    struct = st.lists(
        st.tuples(NAMES, kinds(depth - 1)), min_size=1, max_size=3, unique_by=lambda pair: pair[0]
    ).map(lambda parts: f"struct<{','.join(f'{name}:{kind}' for name, kind in parts)}>")
    return st.one_of(scalar, struct)


def kinds(depth: int) -> st.SearchStrategy[str]:
    value = values(depth)
    keys = st.sampled_from(("int", "bigint", "string", "boolean"))
    return st.one_of(
        value,
        value.map(lambda kind: f"array<{kind}>"),
        st.tuples(keys, value).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
    )


@given(st.lists(kinds(2), min_size=1, max_size=5))
def test_every_column_has_a_field_that_its_values_fit(types: list[str]) -> None:
    rows = columns(*((f"column{number}", kind) for number, kind in enumerate(types)))

    assert list(fit.mismatches("", rows, message(build_file("outputs.a", "Row", rows)))) == []


def test_a_scalar_has_presence_so_that_null_is_no_zero() -> None:
    row = message(build_file("outputs.a", "Row", columns(("n", "bigint"), ("names", "array<string>"))))

    assert [(field.name, field.has_presence) for field in row.fields] == [("n", True), ("names", False)]


def test_names_with_a_dot_are_fields_of_one_message() -> None:
    rows = columns(("place.lat", "double"), ("n", "bigint"), ("place.lon", "double"))
    row = message(build_file("outputs.a", "Row", rows))

    assert [field.name for field in row.fields] == ["place", "n"]
    assert list(fit.mismatches("", rows, row)) == []


def test_a_message_only_grows_and_its_fields_keep_their_numbers() -> None:
    first = build_file("outputs.a", "Row", columns(("n", "bigint"), ("place", "struct<lat:double>")))
    second = build_file(
        "outputs.a", "Row", columns(("place", "struct<lon:double>"), ("seen", "timestamp")), first
    )
    row = message(second)

    assert {field.name: field.number for field in row.fields} == {"n": 1, "place": 2, "seen": 3}
    assert [field.name for field in row.fields_by_name["place"].message_type.fields] == ["lat", "lon"]
    assert build_file("outputs.a", "Row", columns(("n", "bigint")), second) == second


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        (
            ("day", "date"),
            "No Protobuf field takes column day of type DATE: CAST it to STRING.",
        ),
        (
            ("all", "array<array<int>>"),
            "No Protobuf field takes column all, ARRAY of such values: write a part of it, or CAST it to"
            " STRING.",
        ),
        (
            ("by", "map<double,int>"),
            "No Protobuf field takes column by, MAP of such values: write a part of it, or CAST it to"
            " STRING.",
        ),
        (
            ("count(1)", "bigint"),
            "No Protobuf field can be called as column count(1) is: give it another name with AS.",
        ),
        (
            ("n", "string"),
            "Column n is STRING, and its topic has records in which it is something else: give it another"
            " name with AS.",
        ),
    ],
)
def test_what_no_field_takes_is_named_with_what_to_do(pair: tuple[str, str], sentence: str) -> None:
    before = build_file("outputs.a", "Row", columns(("n", "bigint")))
    with pytest.raises(NotExpressible) as caught:
        build_file("outputs.a", "Row", columns(pair), before)

    assert caught.value.problems == (sentence,)
