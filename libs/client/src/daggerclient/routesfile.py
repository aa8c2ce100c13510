"""Routes of a team's alerts as they are written in YAML: `kind: routes`, the name of the team, and a tree.

kind: routes
name: pricing
receivers: [slack]
group_by: [dagger, condition]
group_wait: 30s
repeat_interval: 4h
routes:
  - match: [severity=critical]
    receivers: [pagerduty, slack]
    escalation: {after: 15m, receivers: [email]}
  - match: ["rule=api_*", key_tag_api=pay]
    receivers: [webhook]
    windows: [mon-fri 09:00-18:00 Europe/Berlin]
    continue: true
"""

from dataclasses import dataclass, field
from typing import Final

import yaml
from daggers.v1 import alerts_pb2

from daggerclient.daggerfile.reader import Reader
from daggerclient.entryfile import begin_entry, finish_entry
from daggerclient.routesdocument import KIND, SPANS

KEYS: Final = ("receivers", "group_by", *SPANS, "windows", "escalation", "routes")
"""Keys of the root; a child has also those of CHILD_KEYS."""
CHILD_KEYS: Final = ("match", "continue")


@dataclass(frozen=True, slots=True)
class RoutesFile:
    """Routes of one file."""

    team: str
    routes: alerts_pb2.AlertRoute
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Line and column of each value, by its path."""


def parse(text: str, file: str) -> RoutesFile:
    """Parse the routes of a file. Raises InvalidFileError with everything that is wrong with them."""
    reader, _, values = begin_entry(text, file, KIND, KEYS)
    team = reader.text(values["name"], "name") if "name" in values else ""
    routes = alerts_pb2.AlertRoute()
    _fill(reader, values, "", routes)
    finish_entry(reader)
    return RoutesFile(team, routes, dict(reader.places))


def _fill(reader: Reader, values: dict[str, yaml.Node], path: str, route: alerts_pb2.AlertRoute) -> None:
    def at(key: str) -> str:
        return f"{path}.{key}" if path else key

    for key, of in (("match", "matchers"), ("receivers", "kinds of receivers")):
        if key in values:
            getattr(route, key).extend(_read_texts(reader, values[key], at(key), of))
    if "group_by" in values:
        route.group_by.SetInParent()
        route.group_by.names.extend(
            _read_texts(reader, values["group_by"], at("group_by"), "labels", empty=True)
        )
    if "windows" in values:
        route.windows.SetInParent()
        route.windows.windows.extend(
            _read_texts(reader, values["windows"], at("windows"), "windows", empty=True)
        )
    for key in SPANS:
        if key in values:
            span = reader.duration(values[key], at(key), off=key == "repeat_interval")
            getattr(route, key).FromTimedelta(span)
    if "continue" in values:
        route.continues = reader.boolean(values["continue"], at("continue"))
    if "escalation" in values:
        _fill_escalation(reader, values["escalation"], at("escalation"), route)
    if "routes" in values:
        for where, item in reader.items(values["routes"], at("routes"), of="routes"):
            _fill(reader, reader.mapping(item, where, (*CHILD_KEYS, *KEYS)), where, route.routes.add())


def _fill_escalation(reader: Reader, node: yaml.Node, path: str, route: alerts_pb2.AlertRoute) -> None:
    route.escalation.SetInParent()
    if isinstance(node, yaml.ScalarNode) and node.value.lower() in ("off", "false"):
        route.escalation.after.FromSeconds(0)
        return
    values = reader.mapping(node, path, ("after", "receivers"), ("after", "receivers"))
    if "after" in values:
        route.escalation.after.FromTimedelta(reader.duration(values["after"], f"{path}.after", positive=True))
    if "receivers" in values:
        kinds = _read_texts(reader, values["receivers"], f"{path}.receivers", "kinds of receivers")
        route.escalation.receivers.extend(kinds)


def _read_texts(reader: Reader, node: yaml.Node, path: str, of: str, *, empty: bool = False) -> list[str]:
    if empty and isinstance(node, yaml.SequenceNode) and not node.value:
        return []
    return [reader.text(item, where) for where, item in reader.items(node, path, of=of)]
