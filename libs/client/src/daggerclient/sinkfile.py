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
from daggerclient.entryfile import begun, ended
from daggerspec import sinks
from daggerspec.keys import Key
from daggerspec.registered import addresses, where

SECRET, SINK = "secret", "sink"


def secret(text: str, file: str) -> spec_pb2.Secret:
    """The secret of a file. Raises InvalidFileError with everything that is wrong with it."""
    reader, _, values = begun(text, file, SECRET, ("team", "place", "addresses"))
    made = spec_pb2.Secret()
    if "name" in values:
        made.name = reader.text(values["name"], "name")
    if "team" in values:
        made.team = reader.text(values["team"], "team")
    if "place" in values:
        made.place.CopyFrom(sink_items.place(reader, values["place"], "place"))
    if "addresses" in values:
        made.addresses.extend(_texts(reader, values["addresses"], "addresses"))
    ended(reader)
    return made


def shown_secret(value: spec_pb2.Secret) -> dict[str, Any]:
    """What the file of a secret says: the inverse of `secret`."""
    document: dict[str, Any] = {"kind": SECRET, "name": value.name}
    if value.team:
        document["team"] = value.team
    if value.HasField("place"):
        document["place"] = sink_items.shown_secret(value.place)
    return document | {"addresses": list(value.addresses)}


def sink(text: str, file: str) -> spec_pb2.RegisteredSink:
    """The registered sink of a file. Raises InvalidFileError with everything that is wrong with it."""
    kinds = [name for name, kind in sinks.kinds().items() if addresses(kind.KEYS)]
    reader, node, values = begun(text, file, SINK, ("teams", "limit", "by_team", *kinds))
    made = spec_pb2.RegisteredSink()
    if "name" in values:
        made.name = reader.text(values["name"], "name")
    if "teams" in values:
        made.teams.extend(_texts(reader, values["teams"], "teams"))
    if "limit" in values:
        made.limit.CopyFrom(sink_items.limit(reader, values["limit"], "limit"))
    said = [kind for kind in kinds if kind in values]
    if len(said) != 1:
        why = f"a registered sink is of one kind: {' or '.join(kinds)}"
        reader.fail(node, "", "WRONG_TYPE", why)
    for kind in said:
        keys = where(sinks.load(kind).KEYS)
        _fill(reader, values[kind], kind, kind, made.sink, keys)
        if len(said) == 1 and "by_team" in values:
            for team, parts in reader.entries(values["by_team"], "by_team").items():
                sink = made.by_team.add(team=team).sink
                _fill(reader, parts, f"by_team.{team}", kind, sink, keys, registered=True)
    ended(reader)
    return made


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
    """What the file of a registered sink says: the inverse of `sink`."""
    document: dict[str, Any] = {"kind": SINK, "name": value.name}
    if value.teams:
        document["teams"] = list(value.teams)
    shown = sink_items.show(value.sink)
    document |= shown if isinstance(shown, dict) else {}
    if limit := sink_items.shown_limit(value.limit):
        document["limit"] = limit
    if by_team := shown_by_team(value):
        document["by_team"] = by_team
    return document


def shown_by_team(value: spec_pb2.RegisteredSink) -> dict[str, Any]:
    """Show the parts of an address that a registered sink has for teams, by team."""
    return {address.team: next(iter(sink_items.show(address.sink).values())) for address in value.by_team}


def _texts(reader: Reader, node: yaml.Node, path: str) -> list[str]:
    return [reader.text(item, item_path) for item_path, item in reader.items(node, path, of=path)]
