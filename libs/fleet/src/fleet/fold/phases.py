"""The phases of a dagger. Facts move it from one to the next, as their rows in `fleet.fold.facts` say.

Requests move desired state, and the phase only where `AWAKENED` says so: the scheduler says what is observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2

Phase: TypeAlias = "gateway_pb2.Phase.ValueType"
Desired: TypeAlias = "gateway_pb2.Desired.ValueType"
StopMode: TypeAlias = "events_pb2.StopMode.ValueType"

PENDING: Final = gateway_pb2.PENDING
STARTING: Final = gateway_pb2.STARTING
RUNNING: Final = gateway_pb2.RUNNING
DEGRADED: Final = gateway_pb2.DEGRADED
UNREACHABLE: Final = gateway_pb2.UNREACHABLE
BACKING_OFF: Final = gateway_pb2.BACKING_OFF
FAILED: Final = gateway_pb2.FAILED
STOPPING: Final = gateway_pb2.STOPPING
STOPPED: Final = gateway_pb2.STOPPED
DELETED: Final = gateway_pb2.DELETED

Phases: TypeAlias = Mapping["Phase", "Phase"]

# What a person's request to run does to a dagger that waits or has given up.
AWAKENED: Final[Phases] = {BACKING_OFF: PENDING, FAILED: PENDING, STOPPED: PENDING}
