"""The document of a team's routes, as a file of `kind: routes` has it: loads no YAML."""

from typing import Any, Final

from daggers.v1 import alerts_pb2
from google.protobuf.duration_pb2 import Duration

from daggerclient.times import duration

KIND: Final = "routes"
SPANS: Final = ("group_wait", "group_interval", "repeat_interval")


def to_document(team: str, routes: alerts_pb2.AlertRoute) -> dict[str, Any]:
    """Make the document of a team's routes: the inverse of `routesfile.parse`."""
    return {"kind": KIND, "name": team, **show(routes)}


def show(route: alerts_pb2.AlertRoute) -> dict[str, Any]:
    """Make the document of one route and its children."""
    document: dict[str, Any] = {}
    if route.match:
        document["match"] = list(route.match)
    if route.receivers:
        document["receivers"] = list(route.receivers)
    if route.HasField("group_by"):
        document["group_by"] = list(route.group_by.names)
    for key in SPANS:
        if route.HasField(key):
            document[key] = _show_span(getattr(route, key), off=key == "repeat_interval")
    if route.HasField("windows"):
        document["windows"] = list(route.windows.windows)
    if route.HasField("escalation"):
        document["escalation"] = _show_escalation(route.escalation)
    if route.continues:
        document["continue"] = True
    if route.routes:
        document["routes"] = [show(child) for child in route.routes]
    return document


def _show_escalation(escalation: alerts_pb2.AlertEscalation) -> Any:
    if not escalation.receivers:
        return "off"
    return {"after": duration(escalation.after), "receivers": list(escalation.receivers)}


def _show_span(span: Duration, *, off: bool) -> str:
    return "off" if off and not span.ToNanoseconds() else duration(span)
