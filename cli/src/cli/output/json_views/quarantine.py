"""A record that was set aside."""

import base64
import json
from typing import Any

from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2

from daggerclient.times import iso


def quarantined(what: telemetry_pb2.Quarantined) -> dict[str, Any]:
    """A record that was set aside; its bytes in base64, and what could be read of them."""
    try:
        prefix = json.loads(what.decoded_prefix) if what.decoded_prefix else None
    except ValueError:
        prefix = what.decoded_prefix
    return {
        "id": what.id,
        "topic": what.topic,
        "sink": what.sink,
        "partition": what.partition,
        "offset": what.offset,
        "stage": what.stage,
        "reason": what.reason,
        "detail": what.detail,
        "message": what.message,
        "decoded_prefix": prefix,
        "generation": what.generation,
        "record_time": iso(what.record_time) if what.HasField("record_time") else None,
        "time": iso(what.time),
        "key": base64.b64encode(what.key).decode(),
        "value": base64.b64encode(what.value).decode(),
        "truncated": what.truncated,
    }


def state(what: gateway_pb2.QuarantineStatus) -> str:
    """What has become of a record, in a word."""
    return gateway_pb2.QuarantineState.Name(what.state).removeprefix("QUARANTINE_STATE_")


def state_text(what: gateway_pb2.QuarantineStatus) -> str:
    """The same as `--state` takes it."""
    return state(what).lower().replace("_", "-")


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
    """What has become of a record; nothing where an older gateway does not say."""
    if not what.state:
        return {}
    return {
        "state": state(what),
        "attempts": what.attempts,
        "outcome_reason": what.reason,
        "outcome_detail": what.detail,
        "replay_id": what.replay_id,
        "expire_time": iso(what.expire_time),
    }


def shown(what: gateway_pb2.GetQuarantinedResponse) -> dict[str, Any]:
    """A record, what has become of it, and what it holds."""
    try:
        decoded = json.loads(what.decoded) if what.decoded else None
    except ValueError:
        decoded = what.decoded
    more = {"decoded": decoded, "undecodable": what.undecodable}
    return quarantined(what.record) | status(what.status) | more


def group(what: gateway_pb2.QuarantineGroup) -> dict[str, Any]:
    """Open records of one dagger, stage, reason and sink."""
    return {
        "dagger": what.dagger,
        "stage": what.stage,
        "reason": what.reason,
        "sink": what.sink,
        "records": what.records,
        "oldest": iso(what.oldest),
        "expiring": what.expiring,
    }


def replay_asked(what: gateway_pb2.ReplayQuarantinedResponse) -> dict[str, Any]:
    """A replay that was asked for, and what is expected of it."""
    outcome = telemetry_pb2.QuarantineOutcome
    return {
        "replay_id": what.replay_id,
        "sequence": what.sequence,
        "records": what.records,
        "forecast": [
            {
                "outcome": outcome.Name(forecast.outcome).removeprefix("QUARANTINE_OUTCOME_"),
                "reason": forecast.reason,
                "records": forecast.records,
                "detail": forecast.detail,
            }
            for forecast in what.forecast
        ],
    }


def replay_told(what: gateway_pb2.GetReplayResponse) -> dict[str, Any]:
    """How far a replay is."""
    return {
        "replay_id": what.replay_id,
        "records": what.records,
        "outcomes": dict(sorted(what.outcomes.items())),
        "finished": what.finished,
        "last_error": _error(what.last_error) if what.HasField("last_error") else None,
        "given_up": _error(what.error) if what.HasField("error") else None,
    }


def _error(what: events_pb2.DaggerError) -> dict[str, Any]:
    return {"reason": what.reason, "detail": what.detail}
