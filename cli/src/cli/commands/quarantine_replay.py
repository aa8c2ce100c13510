"""A replay as a person sees it: what is written in place of a record, what is expected, what became of it."""

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
    """What a file says in place of a record: the document of `show`, edited, JSON of what it holds, or its
    bytes.

    Raises: MisusedError for a file that cannot be read, or says nothing new.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise MisusedError(f"--with {file} cannot be read: {error.strerror}") from error
    said = _object(content)
    if said is None:
        return gateway_pb2.QuarantineEdit(id=id_, value=content)
    request = gateway_pb2.GetQuarantinedRequest(dagger=name, id=id_)
    shown = views.content_document(gateway.call(gateway.quarantine.GetQuarantined, request))
    if "decoded" in said and "value" in said:  # as it was shown
        if said["decoded"] == shown["decoded"] and said["value"] != shown["value"] and not shown["sink"]:
            return gateway_pb2.QuarantineEdit(id=id_, value=_bytes(file, said["value"]))
        said = said["decoded"]
    known = shown["decoded"]
    if shown["sink"] and isinstance(said, dict) and isinstance(known, dict):
        # Only what is another: what was printed may have fewer digits than what is kept.
        said = {key: value for key, value in said.items() if key not in known or known[key] != value}
    if not said or said == known:
        raise MisusedError(f"--with {file} says nothing other than what record {id_} holds")
    return gateway_pb2.QuarantineEdit(id=id_, decoded=json.dumps(said, ensure_ascii=False))


def _object(content: bytes) -> Any:
    """A JSON object; None for what is none."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _bytes(file: Path, text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise MisusedError(f"--with {file}: its value is no base64") from None


def tell_forecast(session: Session, answer: gateway_pb2.ReplayQuarantinedResponse) -> None:
    """Print what is expected of a replay."""
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


def waited(
    session: Session,
    gateway: Gateway,
    name: str,
    asked: gateway_pb2.ReplayQuarantinedResponse,
    timeout: float,
) -> gateway_pb2.GetReplayResponse:
    """The replay once each record has an outcome, or it was given up.

    It goes on whether or not the gateway answers, so silence is waited out, too. Raises: RefusedError, and
    UnreachableError when nothing answered to the end.
    """
    request = gateway_pb2.GetReplayRequest(dagger=name, replay_id=asked.replay_id)
    end = time.monotonic() + timeout
    with session.out.steps.step(f"replaying {views.count_text(asked.records)} of {name}") as report:
        while True:
            late = time.monotonic() >= end
            try:
                told = gateway.call(gateway.quarantine.GetReplay, request)
            except UnreachableError as error:
                if late:
                    raise
                report(error.reason)
            else:
                if told.finished:
                    return told
                last = error_text.sentence(told.last_error) if told.HasField("last_error") else ""
                report(f"{sum(told.outcomes.values())} of {told.records}{last and f': {last}'}")
                if late:
                    raise RefusedError(
                        f"the replay of {name} has not finished in {timeout:.0f} s{last and f' ({last})'}:"
                        f" it goes on, `daggers events {name}` tells of it",
                        reason="NOT_REACHED",
                        detail=to_json(told),
                    )
            time.sleep(_POLL_S)


def tell_outcome(session: Session, name: str, told: gateway_pb2.GetReplayResponse) -> None:
    """Print what became of a replay. Raises: RefusedError unless all was replayed."""
    replayed = told.outcomes.get("REPLAYED", 0)
    counts = ", ".join(
        f"{number} {outcome.lower().replace('_', '-')}" for outcome, number in sorted(told.outcomes.items())
    )
    session.out.done(to_json(told), f"{views.count_text(told.records)} of {name}: {counts or 'no outcome'}")
    if replayed < told.records or told.HasField("error"):
        left = views.count_text(told.records - replayed)
        why = f"`daggers quarantine list {name}` has those that are open, and `show` says why of each"
        if told.HasField("error"):
            why = told.error.detail or told.error.reason
        error = RefusedError(f"{left} of {name} not replayed: {why}", reason="NOT_ALL_REPLAYED")
        error.answered = True
        raise error
