"""A dagger: what was asked, and what is observed."""

from typing import Any

from daggers.v1 import events_pb2, gateway_pb2, vitals_pb2

from cli.output.error_text import domain
from daggerclient.times import iso


def dagger(shown: gateway_pb2.Dagger) -> dict[str, Any]:
    """A dagger: what was asked, and what is observed."""
    from daggerclient.daggerfile.show import to_document  # YAML: not for a table of names and phases

    return {
        "name": shown.name,
        "phase": gateway_pb2.Phase.Name(shown.phase),
        "desired": gateway_pb2.Desired.Name(shown.desired).removeprefix("DESIRED_"),
        "generation": shown.generation,
        "version": shown.version,
        "warnings": list(shown.warnings),
        "last_error": error(shown.last_error) if shown.HasField("last_error") else None,
        "observed_generation": shown.observed_generation,
        "observed_version": shown.observed_version,
        "last_good_version": shown.last_good_version or None,
        "attempt": shown.attempt,
        "not_before": iso(shown.not_before) if shown.HasField("not_before") else None,
        "create_time": iso(shown.create_time),
        "update_time": iso(shown.update_time),
        "create_sequence": shown.create_sequence,
        "creator": shown.creator,
        "updater": shown.updater,
        "driver": _driver(shown.driver) if shown.HasField("driver") else None,
        "references": dict(shown.reference_versions),
        "phase_time": iso(shown.phase_time) if shown.HasField("phase_time") else None,
        "restarts": shown.restarts,
        "last_exit": _last_exit(shown.last_exit) if shown.HasField("last_exit") else None,
        "shadow": _shadow(shown.shadow) if shown.HasField("shadow") else None,
        "vitals": vitals(shown.vitals) if shown.HasField("vitals") else None,
        "spec": to_document(shown.spec),
    }


def action(what: int) -> str:
    """What ApplyDagger did: created, updated, started or unchanged."""
    return gateway_pb2.ApplyDaggerResponse.Action.Name(what).removeprefix("ACTION_").lower()  # type: ignore[arg-type] # any number of the wire


def error(what: events_pb2.DaggerError) -> dict[str, Any]:
    """Why something went wrong."""
    return {
        "domain": domain(what.domain),
        "reason": what.reason,
        "detail": what.detail,
        "retryable": what.retryable,
    }


def vitals(what: vitals_pb2.Vitals) -> dict[str, Any]:
    """What a dagger does now; null is what is not known."""
    known = {field.name: value for field, value in what.ListFields()}
    instants = ("heard_time", "watermark", "last_commit", "last_progress")
    return {
        "generation": what.generation,
        **{name: iso(known[name]) if name in known else None for name in instants},
        **{name: known.get(name) for name in ("records_per_s", "rows_per_s", "lag")},
        "records": what.records,
        "rows": what.rows,
        "late_rows": what.late_rows,
        "recent_late_rows": what.recent_late_rows,
        **{name: known.get(name) for name in ("late_windows", "recent_late_windows")},
        "late_rows_by_table": dict(what.late_rows_by_table),
        "quarantined": dict(what.quarantined),
        "recent_quarantined": what.recent_quarantined,
        "state_rows": what.state_rows,
        "memory_bytes": what.memory_bytes or None,
        "warnings": [warning(said) for said in what.warnings],
    }


def warning(what: vitals_pb2.HealthWarning) -> dict[str, Any]:
    """Something that is not as it should be."""
    return {
        "code": what.code,
        "object": what.object,
        "message": what.message,
        "domain": domain(what.domain) if what.domain else None,
        "since": iso(what.since),
        "next": what.next,
    }


def _shadow(what: gateway_pb2.DriverShadow) -> dict[str, Any]:
    """A driver that runs beside its own."""
    return {
        "generation": what.generation,
        "version": what.version,
        "time": iso(what.time),
        "driver": _driver(what.driver) if what.HasField("driver") else None,
        "boundary": iso(what.boundary) if what.HasField("boundary") else None,
    }


def _last_exit(what: gateway_pb2.DriverExit) -> dict[str, Any]:
    return {
        "generation": what.generation,
        "time": iso(what.time),
        "code": what.code if what.HasField("code") else None,
        "error": error(what.error) if what.HasField("error") else None,
    }


def _driver(handle: events_pb2.DriverHandle) -> dict[str, Any]:
    return {
        "host": handle.host,
        "pid": handle.pid,
        "ui_url": handle.ui_url,
        "run_dir": handle.run_dir,
        "spare": handle.spare,
    }
