from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor

from daggerspec import outages, reference, sinks
from daggerspec.defaults import fill_defaults
from daggerspec.keys import flat

FILE = Path(__file__).parents[3] / "docs" / "sinks.md"


def test_the_reference_of_sinks_is_what_they_say() -> None:
    assert FILE.read_text() == reference.text(), "run `make sinks-doc`"


@pytest.mark.parametrize("name", sinks.names())
def test_every_key_of_a_kind_fills_a_field_and_every_field_has_a_key(name: str) -> None:
    message = spec_pb2.Sink.DESCRIPTOR.fields_by_name[name].message_type
    fill_defaults = {key.field for key in flat(sinks.load(name).KEYS)}

    assert fill_defaults == set(_fields(message))


LOG, HERE, THERE = (
    spec_pb2.Sink(log=spec_pb2.LogSink()),
    spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic="here")),
    spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic="there")),
)


def named(name: str, sink: spec_pb2.Sink) -> spec_pb2.Sink:
    made = spec_pb2.Sink(name=name)
    made.MergeFrom(sink)
    return made


def test_a_sink_is_called_by_its_name_else_by_its_kind() -> None:
    assert sinks.display_names([LOG, named("crm", HERE), THERE]) == ["log", "crm", "kafka"]
    assert sinks.display_names([named("kafka", LOG), HERE, named("kafka-2", LOG), THERE]) == [
        "kafka", "kafka-3", "kafka-2", "kafka-4",
    ]  # fmt: skip


@pytest.mark.parametrize("order", [*permutations((LOG, HERE, THERE, named("log", HERE)))])
def test_a_list_of_sinks_in_another_order_gives_each_its_name(order: tuple[spec_pb2.Sink, ...]) -> None:
    names = sinks.display_names(order)

    assert len(set(names)) == len(names)
    assert sorted(zip(names, (each.SerializeToString() for each in order), strict=True)) == sorted(
        zip(
            ["kafka", "kafka-2", "log", "log-2"],
            (each.SerializeToString() for each in (HERE, THERE, named("log", HERE), LOG)),
            strict=True,
        )
    )


def test_what_becomes_of_rows_in_an_outage_is_said_once_it_is_asked_for() -> None:
    spec = spec_pb2.DaggerSpec(sinks=[LOG, named("a", LOG), named("b", LOG)])
    spec.sinks[1].on_outage.SetInParent()
    spec.sinks[2].on_outage.then = spec_pb2.OnOutage.THEN_SKIP

    full = fill_defaults("d", spec)

    assert [sink.HasField("on_outage") for sink in full.sinks] == [False, True, True]
    assert full.sinks[1].on_outage == spec_pb2.OnOutage(then=spec_pb2.OnOutage.THEN_WAIT)
    assert full.sinks[2].on_outage.after.ToTimedelta() == outages.AFTER
    assert fill_defaults("d", full) == full


def _fields(message: Descriptor) -> Iterator[str]:
    """The paths of fields that keys fill: no further than a map, a reference, and what Google has."""
    for field in message.fields:
        nested = field.message_type
        if nested is None or nested.file is not message.file or _is_whole(nested):
            yield field.name
        else:
            yield from (f"{field.name}.{name}" for name in _fields(nested))


def _is_whole(message: Descriptor) -> bool:
    return message is spec_pb2.SecretRef.DESCRIPTOR or message.GetOptions().map_entry
