from __future__ import annotations

from pathlib import Path

import pytest
from daggers.v1 import spec_pb2

from daggerspec import reference, sinks

FILE = Path(__file__).parents[3] / "docs" / "sinks.md"


def test_the_reference_of_sinks_is_what_they_say() -> None:
    assert FILE.read_text() == reference.text(), "run `make sinks-doc`"


@pytest.mark.parametrize("name", sinks.names())
def test_every_key_of_a_kind_fills_a_field_and_every_field_has_a_key(name: str) -> None:
    message = spec_pb2.Sink.DESCRIPTOR.fields_by_name[name].message_type
    filled = {key.field for key in sinks.load(name).KEYS}
    fields = set()
    for field in message.fields:
        nested = field.message_type
        if nested is None or nested is spec_pb2.SecretRef.DESCRIPTOR or nested.file is not message.file:
            fields.add(field.name)
        else:
            fields |= {f"{field.name}.{each.name}" for each in nested.fields}

    assert filled == fields
