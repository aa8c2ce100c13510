"""The key `late` of a dagger file: `drop`, or a mapping of `keep`, the name of the sink that takes late
records, and `update`, how long windows take records behind their ends.
"""

from __future__ import annotations

from typing import Final

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile.reader import Reader
from daggerclient.times import duration

DROP: Final = "drop"
KEEP: Final = "keep"
UPDATE: Final = "update"
_FORMS: Final = f"{DROP}, {{{KEEP}: SINK}} or {{{UPDATE}: 10m}}"


def read(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.LateRows:
    """Read what becomes of late rows."""
    rule = spec_pb2.LateRows()
    if isinstance(node, yaml.MappingNode):
        values = reader.mapping(node, path, (KEEP, UPDATE), () if node.value else (KEEP,))
        if KEEP in values:
            rule.keep = reader.text(values[KEEP], f"{path}.{KEEP}")
        if UPDATE in values:
            rule.update.FromTimedelta(reader.duration(values[UPDATE], f"{path}.{UPDATE}", positive=True))
    elif not isinstance(node, yaml.ScalarNode) or node.value != DROP:
        reader.fail(node, path, "UNKNOWN_VALUE", f"{path} must be {_FORMS}", DROP)
    return rule


def show(rule: spec_pb2.LateRows) -> str | dict[str, str]:
    """Make the value of the key: the inverse of `read`."""
    keep = {KEEP: rule.keep} if rule.keep else {}
    update = {UPDATE: duration(rule.update)} if rule.HasField("update") else {}
    return {**keep, **update} or DROP
