"""One table of types, written down twice: the dialect's and the decoder's must be the same."""

from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from pyspark.sql.pandas.types import from_arrow_schema
from tests.conformance.corpus import STREAMS, compiled, message

from daggersql.ir.types import of_message
from runtime.decode.columns import arrow_schema, select

PROTOS = Path(__file__).with_name("protos")
OWN = ["every_type.proto"]


def test_a_message_with_every_type_has_the_same_columns_for_the_dialect_and_the_decoder() -> None:
    pool = descriptor_pool.DescriptorPool()
    for file in compiled(*(PROTOS / name for name in OWN), include=PROTOS).file:
        pool.Add(file)  # type: ignore[no-untyped-call]  # protobuf's own stub lacks it
        package = file.package
    descriptor = pool.FindMessageTypeByName(f"{package}.EveryType")
    names = [field.name for field in descriptor.fields]
    schema = from_arrow_schema(arrow_schema(select(descriptor, names)))
    decoded = {field.name: field.dataType.simpleString() for field in schema}

    assert {name: kind.spark for name, kind in of_message(descriptor).fields().items()} == decoded


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_of_the_corpus_has_the_same_columns_for_the_dialect_and_the_decoder(stream: str) -> None:
    descriptor = message(f"corpus.v1.{STREAMS[stream]}")
    names = [field.name for field in descriptor.fields]
    schema = from_arrow_schema(arrow_schema(select(descriptor, names)))
    decoded = {field.name: field.dataType.simpleString() for field in schema}

    assert {name: kind.spark for name, kind in of_message(descriptor).fields().items()} == decoded
