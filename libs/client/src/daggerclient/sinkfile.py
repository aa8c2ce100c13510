"""Registered sinks and secrets as they are written in YAML: `kind: sink` and `kind: secret`.

kind: secret
name: crm-token
team: crm
place: {file: /etc/daggers/crm/token}
addresses: ["http://influx.crm:8086"]

kind: sink
name: crm
teams: [crm, pricing]
influx: {url: "http://influx.crm:8086", bucket: rows, token: crm-token}
limit: {rows_per_second: 1000}
by_team:
  pricing: {bucket: pricing, token: pricing-token}
"""

from collections.abc import Sequence
from typing import Any

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile import sinks as sink_items
from daggerclient.daggerfile.reader import Reader
from daggerclient.entryfile import begin_entry, finish_entry
from daggerspec import sinks
from daggerspec.keys import Key
from daggerspec.registered import addresses, where

SECRET, SINK = "secret", "sink"


def secret(text: str, file: str) -> spec_pb2.Secret:
    """Parse the secret of a file. Raises InvalidFileError with everything that is wrong with it."""
    reader, _, values = begin_entry(text, file, SECRET, ("team", "place", "addresses"))
    entry = spec_pb2.Secret()
    if "name" in values:
        entry.name = reader.text(values["name"], "name")
    if "team" in values:
        entry.team = reader.text(values["team"], "team")
    if "place" in values:
        entry.place.CopyFrom(sink_items.place(reader, values["place"], "place"))
    if "addresses" in values:
        entry.addresses.extend(_texts(reader, values["addresses"], "addresses"))
    finish_entry(reader)
    return entry


def shown_secret(value: spec_pb2.Secret) -> dict[str, Any]:
    """Make the document of a registered secret: the inverse of `secret`."""
    document: dict[str, Any] = {"kind": SECRET, "name": value.name}
    if value.team:
        document["team"] = value.team
    if value.HasField("place"):
        document["place"] = sink_items.shown_secret(value.place)
    return document | {"addresses": list(value.addresses)}


def sink(text: str, file: str) -> spec_pb2.RegisteredSink:
    """Parse the registered sink of a file. Raises InvalidFileError with everything that is wrong with it."""
    kinds = [name for name, kind in sinks.kinds().items() if addresses(kind.KEYS)]
    reader, node, values = begin_entry(text, file, SINK, ("teams", "limit", "by_team", *kinds))
    entry = spec_pb2.RegisteredSink()
    if "name" in values:
        entry.name = reader.text(values["name"], "name")
    if "teams" in values:
        entry.teams.extend(_texts(reader, values["teams"], "teams"))
    if "limit" in values:
        entry.limit.CopyFrom(sink_items.limit(reader, values["limit"], "limit"))
    present = [kind for kind in kinds if kind in values]
    if len(present) != 1:
        why = f"a registered sink is of one kind: {' or '.join(kinds)}"
        reader.fail(node, "", "WRONG_TYPE", why)
    for kind in present:
        keys = where(sinks.load(kind).KEYS)
        _fill(reader, values[kind], kind, kind, entry.sink, keys)
        if len(present) == 1 and "by_team" in values:
            for team, parts in reader.entries(values["by_team"], "by_team").items():
                sink = entry.by_team.add(team=team).sink
                _fill(reader, parts, f"by_team.{team}", kind, sink, keys, registered=True)
    finish_entry(reader)
    return entry


def _fill(
    reader: Reader,
    node: yaml.Node,
    path: str,
    kind: str,
    sink: spec_pb2.Sink,
    keys: Sequence[Key],
    *,
    registered: bool = False,
) -> None:
    message = getattr(sink, kind)
    message.SetInParent()
    sink_items.fill(reader, node, path, message, keys, registered=registered)


def shown_sink(value: spec_pb2.RegisteredSink) -> dict[str, Any]:
    """Make the document of a registered sink: the inverse of `sink`."""
    document: dict[str, Any] = {"kind": SINK, "name": value.name}
    if value.teams:
        document["teams"] = list(value.teams)
    item = sink_items.show(value.sink)
    document |= item if isinstance(item, dict) else {}
    if limit := sink_items.shown_limit(value.limit):
        document["limit"] = limit
    if by_team := shown_by_team(value):
        document["by_team"] = by_team
    return document


def shown_by_team(value: spec_pb2.RegisteredSink) -> dict[str, Any]:
    """Show the parts of an address that a registered sink has for teams, by team."""
    items = {address.team: sink_items.show(address.sink) for address in value.by_team}
    # The item of a sink that sets nothing is the name of its kind alone, or empty.
    return {
        team: next(iter(item.values()), {}) if isinstance(item, dict) else {} for team, item in items.items()
    }


def _texts(reader: Reader, node: yaml.Node, path: str) -> list[str]:
    return [reader.text(item, item_path) for item_path, item in reader.items(node, path, of=path)]
