"""What a record of the control topic says, in words: one line for a person who reads along."""

from collections.abc import Callable, Mapping
from typing import Any, Final

Data = Mapping[str, Any]


def words(event: Mapping[str, Any]) -> str:
    """What happened. `event` is as `shapes.event` has it; a type that is not known here is named as it is."""
    kind = event["type"].rpartition(".")[2]
    data = event["data"]
    said = kind if data is None or kind not in _WORDS else _WORDS[kind](data, event["sequence"])
    return f"{said}; refused: {event['refused']}" if event["refused"] else said


def _asked(what: str) -> Callable[[Data, int], str]:
    """Words for a request, with who asked."""
    return lambda data, _: f"{what}{_by(data)}"


def _fact(phase: str) -> Callable[[Data, int], str]:
    """Words for a fact that is its phase and its launch alone."""
    return lambda data, _: f"{phase}{_launch(data)}"


def _requested(data: Data, _: int) -> str:
    expected = data.get("meta", {}).get("expected_version")
    what = "created" if expected == "0" else "revised"
    warnings = len(data.get("warnings", ()))
    return f"{what}{_by(data)}" + (f", warnings: {warnings}" if warnings else "")


def _registered(data: Data, _: int) -> str:
    return f"schema registered: {', '.join(data.get('schema', {}).get('messages', ()))}{_by(data)}"


def _stop_requested(data: Data, _: int) -> str:
    how = " at once" if data.get("mode") == "STOP_MODE_NOW" else ""
    return f"asked to stop{how}{_by(data)}"


def _started(data: Data, sequence: int) -> str:
    return f"scheduler {data.get('scheduler_id', '?')} leads, epoch {sequence}"


def _intended(data: Data, sequence: int) -> str:
    return f"PENDING, generation {sequence} is being launched for version {data.get('version', 0)}"


def _launched(data: Data, _: int) -> str:
    driver = data.get("driver", {})
    how = "adopted" if data.get("adopted") else "launched"
    shown = f", UI {driver['ui_url']}" if driver.get("ui_url") else ""
    return f"STARTING{_launch(data)}: {how} on {driver.get('host', '?')}, pid {driver.get('pid', '?')}{shown}"


def _loaded(data: Data, _: int) -> str:
    versions = (f"{table} {version}" for table, version in sorted(data.get("versions", {}).items()))
    return f"reference tables loaded{_launch(data)}: {', '.join(versions)}"


def _exited(data: Data, _: int) -> str:
    code = f" with code {data['code']}" if "code" in data else ""
    return f"driver exited{code}{_launch(data)}{_why(data)}"


def _degraded(data: Data, _: int) -> str:
    return f"DEGRADED{_launch(data)}: {', '.join(data.get('reasons', ()))}"


def _relaunch(data: Data, _: int) -> str:
    attempt = f"attempt {data.get('attempt', 0)} not before {data.get('not_before', '?')}"
    return f"BACKING_OFF{_launch(data)}: {attempt}"


def _stop_issued(data: Data, _: int) -> str:
    how = "killed" if data.get("mode") == "STOP_MODE_NOW" else "told to finish its batch and stop"
    return f"STOPPING{_launch(data)}: {how}"


def _by(data: Data) -> str:
    return f" by {data.get('meta', {}).get('actor') or 'anonymous'}"


def _launch(data: Data) -> str:
    generation = data.get("meta", {}).get("generation")
    return f", generation {generation}" if generation else ""


def _why(data: Data) -> str:
    error = data.get("error")
    if not error:
        return ""
    domain = error.get("domain", "ERROR_DOMAIN_INTERNAL").removeprefix("ERROR_DOMAIN_")
    detail = f": {error['detail']}" if error.get("detail") else ""
    return f": {domain} {error.get('reason', '')}{detail}"


_WORDS: Final[Mapping[str, Callable[[Data, int], str]]] = {
    "ClusterRegistered": _asked("cluster registered"),
    "SchemaRegistered": _registered,
    "StreamRegistered": _asked("stream registered"),
    "ReferenceRegistered": _asked("reference table registered"),
    "DaggerRequested": _requested,
    "StartRequested": _asked("asked to start"),
    "StopRequested": _stop_requested,
    "RestartRequested": _asked("asked to restart"),
    "DeleteRequested": _asked("asked to go"),
    "DeathConfirmed": lambda data, _: f"generation {data.get('generation', '?')} confirmed dead{_by(data)}",
    "SchedulerStarted": _started,
    "LaunchIntended": _intended,
    "Launched": _launched,
    "LaunchFailed": lambda data, _: f"launch failed{_launch(data)}{_why(data)}",
    "Running": _fact("RUNNING"),
    "Degraded": _degraded,
    "Recovered": lambda data, _: f"RUNNING{_launch(data)}: makes progress again",
    "Unreachable": _fact("UNREACHABLE"),
    "Exited": _exited,
    "RelaunchScheduled": _relaunch,
    "Failed": lambda data, _: f"FAILED{_launch(data)}{_why(data)}",
    "StopIssued": _stop_issued,
    "Stopped": _fact("STOPPED"),
    "OrphanKilled": lambda data, _: f"an orphaned driver was killed{_launch(data)}",
    "Deleted": _fact("DELETED"),
    "ReferencesLoaded": _loaded,
    "Settled": lambda data, _: f"healthy for long enough, attempts count anew{_launch(data)}",
}
