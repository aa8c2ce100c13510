"""Kinds of sinks."""

from typing import Any

from daggerspec.keys import every
from daggerspec.kind import Kind
from daggerspec.reference import describe_requirement
from daggerspec.sinks import about


def kind_document(name: str, kind_: Kind) -> dict[str, Any]:
    """Make the document of a kind: its capabilities and promises, and its keys in a dagger file."""
    can = kind_.CAPABILITIES
    return {
        "kind": name,
        "about": about(kind_),
        "guarantee": str(can.guarantee),
        "because": can.because,
        "emit_early": can.upserts,
        "repeats_tellable": can.repeats_tellable,
        "records": can.records,
        "max_rows": can.max_rows,
        "max_bytes": can.max_bytes,
        "keys": [
            {
                "key": key,
                "needed": describe_requirement(inner),
                "address": inner.address,
                "about": inner.about,
            }
            for key, inner in every(kind_.KEYS)
        ],
    }
