"""Priorities of daggers: what is launched first. Pure."""

from __future__ import annotations

from daggers.v1 import spec_pb2


def is_critical(spec: spec_pb2.DaggerSpec) -> bool:
    """Tell whether a dagger is launched before all that are not critical."""
    return spec.priority == spec_pb2.PRIORITY_CRITICAL
