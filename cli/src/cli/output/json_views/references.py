"""A reference table."""

from typing import Any

from daggers.v1 import spec_pb2


def format_name(what: spec_pb2.ReferenceTable) -> str:
    """How the data stands in its file, as flags say it."""
    return spec_pb2.ReferenceTable.Format.Name(what.format).removeprefix("FORMAT_").lower()


def reference(what: spec_pb2.ReferenceTable) -> dict[str, Any]:
    """A reference table."""
    return {"name": what.name, "format": format_name(what), "location": what.location}
