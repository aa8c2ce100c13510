"""Every number of a specification has bounds, for calls as for files."""

from __future__ import annotations

import re
from typing import Any

import pytest
from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from libs.spec.tests.spec_secrets import Known

from daggerspec import rules, sinks
from daggerspec.defaults import fill_defaults
from daggerspec.kind import ValidationContext

GREATEST = {
    FieldDescriptor.TYPE_UINT32: 2**32 - 1,
    FieldDescriptor.TYPE_UINT64: 2**64 - 1,
    FieldDescriptor.TYPE_INT32: 2**31 - 1,
    FieldDescriptor.TYPE_INT64: 2**63 - 1,
    FieldDescriptor.TYPE_DOUBLE: float("inf"),
}


def numbers(message: Descriptor, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], float]:
    """The paths of the numbers of a message and of those it holds, each with the greatest of its type."""
    greatest: dict[tuple[str, ...], float] = {}
    for field in message.fields:
        if field.type in GREATEST:
            greatest[(*above, field.name)] = GREATEST[field.type]
        elif is_own(field) and field.message_type is not message:
            greatest |= numbers(field.message_type, (*above, field.name))
    return greatest


def is_own(field: FieldDescriptor) -> bool:
    """Whether a field holds a message of ours, and no map."""
    held = field.message_type
    return held is not None and held.full_name.startswith("daggers.") and not held.GetOptions().map_entry


NUMBERS = numbers(spec_pb2.DaggerSpec.DESCRIPTOR)


@pytest.mark.parametrize("path", NUMBERS, ids=".".join)
def test_the_greatest_number_of_its_type_is_refused(path: tuple[str, ...]) -> None:
    spec = spec_pb2.DaggerSpec(cluster="local", team="pricing", sql="SELECT 1")
    owner: Any = spec
    for name in path[:-1]:
        owner = getattr(owner, name)
        owner = owner.add() if hasattr(owner, "add") else owner
    setattr(owner, path[-1], NUMBERS[path])
    if path[0] == "sinks" and not spec.sinks[0].WhichOneof("kind"):
        spec.sinks[0].http.SetInParent()
    spec = fill_defaults("d", spec)
    asked = ValidationContext("d", spec, Known())

    violations = rules.violations("spec", asked, sinks.all_resolved("spec", asked))

    field = re.sub(r"^spec\.(sinks|tests|alerts)", r"spec.\1[0]", f"spec.{'.'.join(path)}")
    assert (field, "OUT_OF_RANGE") in {(violation.field, violation.reason) for violation in violations}
