"""The phase table: in which phases a fact applies, and the phase that follows.

A fact that finds the dagger in a phase its row does not name changes nothing. Requests move desired state,
and the phase only where `AWAKENED` says so: what is observed is the scheduler's to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message

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

PHASES: Final[Mapping[type[Message], Phases]] = {
    # STARTING again: a new intent fences one that nobody answered. STOPPING: its driver is gone, see evolve.
    events_pb2.LaunchIntended: {
        PENDING: STARTING,
        BACKING_OFF: STARTING,
        STARTING: STARTING,
        STOPPING: STARTING,
    },
    events_pb2.Launched: {
        STARTING: STARTING,
        RUNNING: RUNNING,
        DEGRADED: DEGRADED,
        UNREACHABLE: UNREACHABLE,
        STOPPING: STOPPING,
    },
    # In STARTING a submission failed. Elsewhere none was made, and the error says what it waits for.
    events_pb2.LaunchFailed: {
        STARTING: BACKING_OFF,
        PENDING: PENDING,
        BACKING_OFF: PENDING,
        STOPPING: PENDING,
    },
    events_pb2.Running: {STARTING: RUNNING, DEGRADED: RUNNING, UNREACHABLE: RUNNING},
    events_pb2.Degraded: {
        STARTING: DEGRADED,
        RUNNING: DEGRADED,
        DEGRADED: DEGRADED,
        UNREACHABLE: DEGRADED,
    },
    events_pb2.Recovered: {DEGRADED: RUNNING, UNREACHABLE: RUNNING},
    events_pb2.Unreachable: {
        STARTING: UNREACHABLE,
        RUNNING: UNREACHABLE,
        DEGRADED: UNREACHABLE,
        STOPPING: UNREACHABLE,
    },
    # BACKING_OFF owes RelaunchScheduled or Failed; STOPPING without a driver owes what is asked.
    events_pb2.Exited: {
        STARTING: BACKING_OFF,
        RUNNING: BACKING_OFF,
        DEGRADED: BACKING_OFF,
        UNREACHABLE: BACKING_OFF,
        STOPPING: STOPPING,
    },
    events_pb2.RelaunchScheduled: {BACKING_OFF: BACKING_OFF},
    events_pb2.Failed: {PENDING: FAILED, BACKING_OFF: FAILED, STOPPING: FAILED},
    events_pb2.StopIssued: {
        STARTING: STOPPING,
        RUNNING: STOPPING,
        DEGRADED: STOPPING,
        UNREACHABLE: STOPPING,
        STOPPING: STOPPING,
    },
    events_pb2.Stopped: {PENDING: STOPPED, BACKING_OFF: STOPPED, FAILED: STOPPED, STOPPING: STOPPED},
    events_pb2.Deleted: {
        PENDING: DELETED,
        BACKING_OFF: DELETED,
        FAILED: DELETED,
        STOPPING: DELETED,
        STOPPED: DELETED,
    },
    events_pb2.Settled: {RUNNING: RUNNING, DEGRADED: DEGRADED},
    events_pb2.ReferencesLoaded: {RUNNING: RUNNING, DEGRADED: DEGRADED},
}

# What a person's request to run does to a dagger that waits or has given up.
AWAKENED: Final[Phases] = {BACKING_OFF: PENDING, FAILED: PENDING, STOPPED: PENDING}
