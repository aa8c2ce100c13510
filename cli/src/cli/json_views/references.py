"""A reference table."""

from typing import Any

from daggers.v1 import spec_pb2


def reference(what: spec_pb2.ReferenceTable) -> dict[str, Any]:
    """A reference table."""
    form = spec_pb2.ReferenceTable.Format.Name(what.format).removeprefix("FORMAT_").lower()
    return {"name": what.name, "format": form, "location": what.location}
