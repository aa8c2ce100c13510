"""What a fact says to a person beside its name: the texts that rows of `fleet.fold.facts` refer to. Pure."""

from __future__ import annotations

from typing import TypeAlias

from daggers.v1 import events_pb2
from google.protobuf.timestamp_pb2 import Timestamp


def where(fact: events_pb2.Launched | events_pb2.ShadowLaunched) -> str:
    """Where a driver runs."""
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


def why(fact: Failure) -> str:
    """What went wrong, and who has to act."""
    if not fact.HasField("error"):
        return ""
    error = fact.error
    domain = error.domain or events_pb2.ERROR_DOMAIN_INTERNAL
    detail = f": {error.detail}" if error.detail else ""
    return f"{events_pb2.ErrorDomain.Name(domain).removeprefix('ERROR_DOMAIN_')} {error.reason}{detail}"


def next_attempt(fact: events_pb2.RelaunchScheduled) -> str:
    """When it is tried again."""
    when = fact.not_before.ToJsonString() if fact.HasField("not_before") else "?"
    which = f"attempt {fact.attempt}" if fact.attempt else "no attempt,"
    return f"{which} not before {when}"


def how(fact: events_pb2.StopIssued) -> str:
    """How it was told to stop."""
    why = ": its host is drained" if fact.move else ""
    return ("killed" if fact.mode == events_pb2.STOP_MODE_NOW else "told to finish its batch and stop") + why


def replayed(fact: events_pb2.ReplayFinished) -> str:
    """How many records have each outcome, and why it was given up."""
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in sorted(fact.outcomes.items()))
    return "; ".join(filter(None, [outcomes, why(fact)]))


def boundary(fact: events_pb2.CutoverDecided) -> str:
    """Who writes which windows."""
    return f"its driver writes windows that end up to {_instant(fact.boundary)}, its shadow those behind"


def handed(fact: events_pb2.CutoverHanded) -> str:
    """From where on it writes."""
    return f"it writes windows that end behind {_instant(fact.written)}"


def _instant(told: Timestamp) -> str:
    try:
        return told.ToJsonString()
    except ValueError:  # no instant: nobody writes one
        return "?"
