"""The key `forward` of a dagger file: a condition, and columns with their expressions by name."""

from typing import Any

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile.reader import Reader

KEYS = ("filter", "fields")


def read(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.Forward:
    """What is forwarded. What cannot be read is noted."""
    values, forward = reader.mapping(node, path, KEYS), spec_pb2.Forward()
    if "filter" in values:
        forward.filter = reader.text(values["filter"], f"{path}.filter")
    if "fields" in values:
        for number, (name, node) in enumerate(reader.entries(values["fields"], f"{path}.fields").items()):
            inner = f"{path}.fields[{number}].expression"  # as the specification has it
            reader.places[inner] = reader.places[f"{path}.fields.{name}"]
            forward.fields.add(name=name, expression=reader.text(node, inner))
    return forward


def show(forward: spec_pb2.Forward) -> dict[str, Any]:
    """The value of the key."""
    fields = {field_.name: field_.expression for field_ in forward.fields}
    return {key: value for key, value in zip(KEYS, (forward.filter, fields), strict=True) if value}
