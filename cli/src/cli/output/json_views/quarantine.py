"""A quarantined record."""

from typing import Any, Final

from daggers.v1 import gateway_pb2, telemetry_pb2

from cli.output.json_views.answers import to_json

_STAGES: Final = {"decode": "not decodable", "event_time": "no usable event time"}


def stage_text(record: telemetry_pb2.Quarantined) -> str:
    """Describe in words where a record was quarantined, as pages do; `--stage` takes the stage itself."""
    return f"refused by sink {record.sink}" if record.sink else _STAGES.get(record.stage, record.stage)


def state_text(status: gateway_pb2.QuarantineStatus) -> str:
    """Write what has become of a record in a word, as `--state` takes it."""
    name = gateway_pb2.QuarantineState.Name(status.state).removeprefix("QUARANTINE_STATE_")
    return name.lower().replace("_", "-")


def place(record: telemetry_pb2.Quarantined) -> str:
    """Write where a record comes from: its place in a topic, or the sink that refused the row."""
    offset = f"{record.partition}@{record.offset}"
    if not record.sink:
        return f"{record.topic}/{offset}"
    return f"row for {record.sink}{f' ({offset})' if record.partition or record.offset else ''}"


def count_text(number: int) -> str:
    """Write a number of records in words."""
    return f"{number:,} record{'' if number == 1 else 's'}"


def status_document(status: gateway_pb2.QuarantineStatus) -> dict[str, Any]:
    """Convert what has become of a record; nothing where an older gateway does not say."""
    return to_json(status) if status.state else {}


def content_document(answer: gateway_pb2.GetQuarantinedResponse) -> dict[str, Any]:
    """Convert a record, what has become of it, and what it holds."""
    return to_json(answer.record) | status_document(answer.status) | to_json(answer)
