"""The view of a dagger that the API returns."""

from __future__ import annotations

from typing import Final

from daggers.v1 import gateway_pb2

from daggerspec import sinks
from daggerspec.kind import ValidationContext
from daggerspec.protobuf import timestamp
from fleet.fold.dagger import Dagger
from fleet.fold.fleet import Fleet
from fleet.fold.phases import DEGRADED, RUNNING
from fleet.fold.resolve import FleetCatalogue
from fleet.fold.shadow import Shadow

_UNREAD: Final = (
    "HISTORY_UNREADABLE: a record about it cannot be read by this version, so nothing is done to it and its"
    ' driver is left alone; docs/operations.md says what to do under "When the log is damaged"'
)


_CHANGED: Final = (
    "STREAM_CHANGED: the stream {stream} was registered with other settings after this driver was launched;"
    " `daggers restart {dagger}` reads it as it is now"
)


def to_proto(dagger: Dagger, fleet: Fleet) -> gateway_pb2.Dagger:
    """Return the dagger as the API has it: findings of the validation first, then why it is degraded.

    One whose history cannot be read whole is shown as RUNNING by nobody: no scheduler looks after it.
    """
    unread = dagger.name in fleet.unreadable_daggers
    context = ValidationContext(dagger.name, dagger.spec, FleetCatalogue(fleet))
    return gateway_pb2.Dagger(
        name=dagger.name,
        spec=dagger.spec,
        version=dagger.version,
        desired=dagger.desired,
        phase=DEGRADED if unread and dagger.phase == RUNNING else dagger.phase,
        generation=dagger.generation,
        observed_generation=dagger.observed_generation,
        observed_version=dagger.observed_version,
        warnings=[
            *dagger.warnings,
            *dagger.reasons,
            *(_CHANGED.format(stream=name, dagger=dagger.name) for name in _changed_streams(fleet, dagger)),
            *([_UNREAD] if unread else []),
        ],
        last_error=dagger.last_error,
        driver=dagger.driver,
        attempt=dagger.attempt,
        sinks=[resolved for resolved, _ in sinks.all_resolved("", context)],
        create_sequence=dagger.create_sequence,
        creator=dagger.creator,
        updater=dagger.updater,
        reference_versions=dict(dagger.references),
        restarts=dagger.restarts,
        last_exit=dagger.last_exit,
        last_good_version=dagger.last_good_version,
        phase_time=timestamp(dagger.phase_time),
        create_time=timestamp(dagger.create_time),
        update_time=timestamp(dagger.update_time),
        shadow=None if dagger.shadow is None else _shadow_to_proto(dagger.shadow),
        not_before=None if dagger.not_before is None else timestamp(dagger.not_before),
    )


def _shadow_to_proto(shadow: Shadow) -> gateway_pb2.DriverShadow:
    return gateway_pb2.DriverShadow(
        generation=shadow.generation,
        version=shadow.version,
        driver=shadow.driver,
        time=timestamp(shadow.time),
        boundary=None if shadow.boundary is None else timestamp(shadow.boundary),
    )


def find_outdated_daggers(fleet: Fleet, stream: str) -> list[str]:
    """Return the names of the daggers whose drivers were launched before the stream became what it is,
    sorted.
    """
    return [
        name for name, dagger in sorted(fleet.daggers.items()) if stream in _changed_streams(fleet, dagger)
    ]


def _changed_streams(fleet: Fleet, dagger: Dagger) -> list[str]:
    """Return the streams that were registered anew, with other settings, after its driver was launched."""
    if dagger.driver is None:
        return []
    names = sorted({stream.stream for stream in dagger.spec.streams})
    return [
        name
        for name in names
        if (entry := fleet.streams.get(name)) is not None and entry.since > dagger.generation
    ]
