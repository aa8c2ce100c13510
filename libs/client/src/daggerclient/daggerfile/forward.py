"""The key `forward` of a dagger file: a condition, and columns by name with their expressions, or records."""

from typing import Any

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile.forms import word
from daggerclient.daggerfile.reader import Reader

KEYS = ("filter", "fields", "payload")
_PAYLOAD = word({"row": spec_pb2.Forward.PAYLOAD_ROW, "record": spec_pb2.Forward.PAYLOAD_RECORD})


def read(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.Forward:
    """Read the value of the key; notes a finding of what cannot be read."""
    values, forward = reader.mapping(node, path, KEYS), spec_pb2.Forward()
    if "filter" in values:
        forward.filter = reader.text(values["filter"], f"{path}.filter")
    if "fields" in values:
        for number, (name, node) in enumerate(reader.entries(values["fields"], f"{path}.fields").items()):
            inner = f"{path}.fields[{number}].expression"  # as the specification has it
            reader.places[inner] = reader.places[f"{path}.fields.{name}"]
            forward.fields.add(name=name, expression=reader.text(node, inner))
    if "payload" in values:
        forward.payload = _PAYLOAD.read(reader, values["payload"], f"{path}.payload")
    return forward


def show(forward: spec_pb2.Forward) -> dict[str, Any]:
    """Make the value of the key: the inverse of `read`."""
    fields = {field_.name: field_.expression for field_ in forward.fields}
    payload = _PAYLOAD.show(forward.payload) if forward.payload else ""
    return {key: value for key, value in zip(KEYS, (forward.filter, fields, payload), strict=True) if value}
