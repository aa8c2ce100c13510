"""A DaggerSpec as a dagger file writes it: the inverse of `parse`."""

from typing import Any

from daggers.v1 import spec_pb2

from daggerclient.daggerfile.table import SPEC, to_values


def to_document(spec: spec_pb2.DaggerSpec) -> dict[str, Any]:
    """Make the document of a dagger file of a specification, without the key `name`."""
    return to_values(spec, SPEC)
