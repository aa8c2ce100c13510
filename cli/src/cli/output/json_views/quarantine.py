"""A record that was set aside."""

from typing import Any

from daggers.v1 import gateway_pb2, telemetry_pb2

from cli.output.json_views.answers import to_json


def state_text(what: gateway_pb2.QuarantineStatus) -> str:
    """Write what has become of a record in a word, as `--state` takes it."""
    name = gateway_pb2.QuarantineState.Name(what.state).removeprefix("QUARANTINE_STATE_")
    return name.lower().replace("_", "-")


def place(what: telemetry_pb2.Quarantined) -> str:
    """Where it comes from: a record of a topic, or a row that a sink refused, made of a record or of many."""
    offset = f"{what.partition}@{what.offset}"
    if not what.sink:
        return f"{what.topic}/{offset}"
    return f"row for {what.sink}{f' ({offset})' if what.partition or what.offset else ''}"


def records(number: int) -> str:
    """So many records, in words."""
    return f"{number:,} record{'' if number == 1 else 's'}"


def status(what: gateway_pb2.QuarantineStatus) -> dict[str, Any]:
    """Convert what has become of a record; nothing where an older gateway does not say."""
    return to_json(what) if what.state else {}


def shown(what: gateway_pb2.GetQuarantinedResponse) -> dict[str, Any]:
    """Convert a record, what has become of it, and what it holds."""
    return to_json(what.record) | status(what.status) | to_json(what)
