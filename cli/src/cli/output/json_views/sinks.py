"""Kinds of sinks."""

from typing import Any

from daggerspec.keys import every
from daggerspec.kind import Kind
from daggerspec.reference import needed
from daggerspec.sinks import about


def kind(name: str, what: Kind) -> dict[str, Any]:
    """A kind of sinks: what it does and promises, and its keys in a dagger file."""
    can = what.CAPABILITIES
    return {
        "kind": name,
        "about": about(what),
        "guarantee": str(can.guarantee),
        "because": can.because,
        "emit_early": can.upserts,
        "repeats_tellable": can.repeats_tellable,
        "records": can.records,
        "max_rows": can.max_rows,
        "max_bytes": can.max_bytes,
        "keys": [
            {"key": key, "needed": needed(inner), "address": inner.address, "about": inner.about}
            for key, inner in every(what.KEYS)
        ],
    }
