"""Replays for people: edits, forecasts and outcomes."""

import base64
import json
import time
from pathlib import Path
from typing import Any, Final

from daggers.v1 import gateway_pb2, telemetry_pb2

from cli.errors import MisusedError, RefusedError, UnreachableError
from cli.framework.gateway import Gateway
from cli.framework.session import Session
from cli.output import error_text
from cli.output.json_views import quarantine as views
from cli.output.json_views.answers import to_json

_POLL_S: Final = 0.5
NOTHING_CHOSEN: Final = "nothing that is chosen is open"
_UNFORESEEN: Final = (
    "not foreseen, only a replay tells: what a sink refuses again, rows of a query that is gone, and newer"
    " rows in their place"
)


def edit(gateway: Gateway, name: str, id_: str, file: Path) -> gateway_pb2.QuarantineEdit:
    """Read the edit of a record from a file: the edited document of `show`, JSON of its new content, or its
    bytes.

    Raises: MisusedError for a file that cannot be read, or changes nothing.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise MisusedError(f"--with {file} cannot be read: {error.strerror}") from error
    edited = _object(content)
    if edited is None:
        return gateway_pb2.QuarantineEdit(id=id_, value=content)
    request = gateway_pb2.GetQuarantinedRequest(dagger=name, id=id_)
    document = views.content_document(gateway.call(gateway.quarantine.GetQuarantined, request))
    if "decoded" in edited and "value" in edited:  # the whole document of `show`
        if (
            edited["decoded"] == document["decoded"]
            and edited["value"] != document["value"]
            and not document["sink"]
        ):
            return gateway_pb2.QuarantineEdit(id=id_, value=_bytes(file, edited["value"]))
        edited = edited["decoded"]
    content_before = document["decoded"]
    if document["sink"] and isinstance(edited, dict) and isinstance(content_before, dict):
        # only changed columns: printed values may have fewer digits than the stored ones
        edited = {
            key: value
            for key, value in edited.items()
            if key not in content_before or content_before[key] != value
        }
    if not edited or edited == content_before:
        raise MisusedError(f"--with {file} says nothing other than what record {id_} holds")
    return gateway_pb2.QuarantineEdit(id=id_, decoded=json.dumps(edited, ensure_ascii=False))


def _object(content: bytes) -> Any:
    """Parse a JSON object; return None for anything else."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _bytes(file: Path, text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise MisusedError(f"--with {file}: its value is no base64") from None


def tell_forecast(session: Session, answer: gateway_pb2.ReplayQuarantinedResponse) -> None:
    """Print the forecast of a replay."""
    cells = [
        (_outcome(forecast), forecast.records, forecast.reason or "-", forecast.detail or "-")
        for forecast in answer.forecast
    ]
    session.out.show(
        to_json(answer),
        lambda out: out.table(("EXPECTED", "RECORDS", "REASON", "DETAIL"), cells, empty=NOTHING_CHOSEN),
    )
    some = any(forecast.outcome == telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED for forecast in answer.forecast)
    if some and not session.out.json:
        session.out.note(_UNFORESEEN)


def _outcome(forecast: gateway_pb2.QuarantineForecast) -> str:
    word = telemetry_pb2.QuarantineOutcome.Name(forecast.outcome).removeprefix("QUARANTINE_OUTCOME_")
    return word.lower().replace("_", "-")


def wait_for_replay(
    session: Session,
    gateway: Gateway,
    name: str,
    requested: gateway_pb2.ReplayQuarantinedResponse,
    timeout: float,
) -> gateway_pb2.GetReplayResponse:
    """Wait until each record has an outcome, or the replay was given up; return the replay.

    It continues whether or not the gateway answers, so an unreachable gateway is waited for. Raises:
    RefusedError, and UnreachableError where nothing answered until the end.
    """
    request = gateway_pb2.GetReplayRequest(dagger=name, replay_id=requested.replay_id)
    end = time.monotonic() + timeout
    with session.out.steps.step(f"replaying {views.count_text(requested.records)} of {name}") as report:
        while True:
            late = time.monotonic() >= end
            try:
                answer = gateway.call(gateway.quarantine.GetReplay, request)
            except UnreachableError as error:
                if late:
                    raise
                report(error.reason)
            else:
                if answer.finished:
                    return answer
                last = error_text.sentence(answer.last_error) if answer.HasField("last_error") else ""
                report(f"{sum(answer.outcomes.values())} of {answer.records}{last and f': {last}'}")
                if late:
                    raise RefusedError(
                        f"the replay of {name} has not finished in {timeout:.0f} s{last and f' ({last})'}:"
                        f" it goes on, `daggers events {name}` tells of it",
                        reason="NOT_REACHED",
                        detail=to_json(answer),
                    )
            time.sleep(_POLL_S)


def tell_outcome(session: Session, name: str, answer: gateway_pb2.GetReplayResponse) -> None:
    """Print the outcomes of a replay. Raises: RefusedError unless all records were replayed."""
    replayed = answer.outcomes.get("REPLAYED", 0)
    counts = ", ".join(
        f"{number} {outcome.lower().replace('_', '-')}" for outcome, number in sorted(answer.outcomes.items())
    )
    session.out.print_result(
        to_json(answer), f"{views.count_text(answer.records)} of {name}: {counts or 'no outcome'}"
    )
    if replayed < answer.records or answer.HasField("error"):
        left = views.count_text(answer.records - replayed)
        why = f"`daggers quarantine list {name}` has those that are open, and `show` says why of each"
        if answer.HasField("error"):
            why = answer.error.detail or answer.error.reason
        error = RefusedError(f"{left} of {name} not replayed: {why}", reason="NOT_ALL_REPLAYED")
        error.answered = True
        raise error
