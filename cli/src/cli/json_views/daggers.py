"""A dagger: what was asked, and what is observed."""

from typing import Any

from daggers.v1 import events_pb2, gateway_pb2

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
        "attempt": shown.attempt,
        "not_before": iso(shown.not_before) if shown.HasField("not_before") else None,
        "create_time": iso(shown.create_time),
        "update_time": iso(shown.update_time),
        "create_sequence": shown.create_sequence,
        "driver": _driver(shown.driver) if shown.HasField("driver") else None,
        "references": dict(shown.reference_versions),
        "spec": to_document(shown.spec),
    }


def action(what: int) -> str:
    """What ApplyDagger did: created, updated, started or unchanged."""
    return gateway_pb2.ApplyDaggerResponse.Action.Name(what).removeprefix("ACTION_").lower()  # type: ignore[arg-type] # any number of the wire


def error(what: events_pb2.DaggerError) -> dict[str, Any]:
    """Why something went wrong."""
    return {
        "domain": events_pb2.ErrorDomain.Name(what.domain).removeprefix("ERROR_DOMAIN_"),
        "reason": what.reason,
        "detail": what.detail,
        "retryable": what.retryable,
    }


def _driver(handle: events_pb2.DriverHandle) -> dict[str, Any]:
    return {"host": handle.host, "pid": handle.pid, "ui_url": handle.ui_url, "run_dir": handle.run_dir}
