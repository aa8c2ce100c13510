"""Texts that describe a fact to people beside its name, for the rows of `fleet.fold.facts`. Pure."""

from __future__ import annotations

from typing import TypeAlias

from daggers.v1 import events_pb2
from google.protobuf.timestamp_pb2 import Timestamp


def describe_driver(fact: events_pb2.Launched | events_pb2.ShadowLaunched) -> str:
    """Describe host, pid and Spark UI of a driver."""
    ui = f", UI {fact.driver.ui_url}" if fact.driver.ui_url else ""
    return f"on {fact.driver.host or '?'}, pid {fact.driver.pid or '?'}{ui}"


def describe_intent(fact: events_pb2.LaunchIntended) -> str:
    """Return which version is launched, and on which host where the intent names one."""
    host = f" on {fact.host}" if fact.host else ""
    return f"version {fact.version} is being launched{host}"


Failure: TypeAlias = (
    events_pb2.LaunchFailed
    | events_pb2.Exited
    | events_pb2.Failed
    | events_pb2.ReplayExited
    | events_pb2.ReplayWaits
    | events_pb2.ReplayFinished
    | events_pb2.ShadowEnded
)


def describe_error(fact: Failure) -> str:
    """Describe an error and whose it is; empty where the fact has none."""
    if not fact.HasField("error"):
        return ""
    error = fact.error
    domain = error.domain or events_pb2.ERROR_DOMAIN_INTERNAL
    detail = f": {error.detail}" if error.detail else ""
    return f"{events_pb2.ErrorDomain.Name(domain).removeprefix('ERROR_DOMAIN_')} {error.reason}{detail}"


def describe_attempt(fact: events_pb2.RelaunchScheduled) -> str:
    """Describe number and time of the next attempt."""
    when = fact.not_before.ToJsonString() if fact.HasField("not_before") else "?"
    which = f"attempt {fact.attempt}" if fact.attempt else "no attempt,"
    return f"{which} not before {when}"


def describe_stop(fact: events_pb2.StopIssued) -> str:
    """Describe the mode of a stop, and why it goes on elsewhere."""
    why = ": its host is drained" if fact.move else ""
    if fact.leaves:
        why = f": it goes on in a process of its own, because {fact.leaves}"
    elif fact.returns:
        why = ": it goes on in a process with others"
    return ("killed" if fact.mode == events_pb2.STOP_MODE_NOW else "told to finish its batch and stop") + why


def describe_outcomes(fact: events_pb2.ReplayFinished) -> str:
    """Describe how many records have each outcome, and why the replay was given up."""
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in sorted(fact.outcomes.items()))
    return "; ".join(filter(None, [outcomes, describe_error(fact)]))


def describe_boundary(fact: events_pb2.CutoverDecided) -> str:
    """Describe the windows that a driver and its shadow write."""
    return (
        f"its driver writes windows that end up to {_format_instant(fact.boundary)}, its shadow those behind"
    )


def describe_handover(fact: events_pb2.CutoverHanded) -> str:
    """Describe the windows that a shadow writes once it is the newest launch."""
    return f"it writes windows that end behind {_format_instant(fact.written)}"


def _format_instant(stamp: Timestamp) -> str:
    try:
        return stamp.ToJsonString()
    except ValueError:  # no instant: nobody writes one
        return "?"
