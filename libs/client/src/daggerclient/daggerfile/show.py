"""A DaggerSpec as a dagger file writes it: the inverse of `parse`."""

from typing import Any

from daggers.v1 import spec_pb2

from daggerclient.daggerfile.table import SPEC, shown


def to_document(spec: spec_pb2.DaggerSpec) -> dict[str, Any]:
    """The specification under the keys of a dagger file, without the name."""
    return shown(spec, SPEC)
