from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor

from daggerspec import reference, sinks
from daggerspec.keys import flat

FILE = Path(__file__).parents[3] / "docs" / "sinks.md"


def test_the_reference_of_sinks_is_what_they_say() -> None:
    assert FILE.read_text() == reference.text(), "run `make sinks-doc`"


@pytest.mark.parametrize("name", sinks.names())
def test_every_key_of_a_kind_fills_a_field_and_every_field_has_a_key(name: str) -> None:
    message = spec_pb2.Sink.DESCRIPTOR.fields_by_name[name].message_type
    filled = {key.field for key in flat(sinks.load(name).KEYS)}

    assert filled == set(_fields(message))


def _fields(message: Descriptor) -> Iterator[str]:
    """The paths of fields that keys fill: no further than a map, a reference, and what Google has."""
    for field in message.fields:
        nested = field.message_type
        if nested is None or nested.file is not message.file or _is_whole(nested):
            yield field.name
        else:
            yield from (f"{field.name}.{each}" for each in _fields(nested))


def _is_whole(message: Descriptor) -> bool:
    return message is spec_pb2.SecretRef.DESCRIPTOR or message.GetOptions().map_entry
