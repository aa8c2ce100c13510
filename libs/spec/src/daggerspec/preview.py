"""Derive what a preview runs of a specification. Pure."""

from __future__ import annotations

from daggers.v1 import spec_pb2


def without_sinks(spec: spec_pb2.DaggerSpec) -> spec_pb2.DaggerSpec:
    """Copy a specification for a preview: its sinks, which are not written to, become one log."""
    previewed = spec_pb2.DaggerSpec()
    previewed.CopyFrom(spec)
    del previewed.sinks[:]
    previewed.sinks.add().log.limit = 1
    previewed.ClearField("late")
    previewed.emit = spec_pb2.EMIT_FINAL
    return previewed
