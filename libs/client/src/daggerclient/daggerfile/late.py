"""The key `late` of a dagger file: `drop`, or {keep: NAME}, the name of the sink that takes late records."""

from __future__ import annotations

from typing import Final

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile.reader import Reader

DROP: Final = "drop"
KEEP: Final = "keep"
_UPDATE: Final = "update"


def read(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.LateRows:
    """Read what becomes of late rows."""
    if isinstance(node, yaml.MappingNode) and _UPDATE not in _names(node):
        values = reader.mapping(node, path, (KEEP,), (KEEP,))
        return spec_pb2.LateRows(keep=reader.text(values[KEEP], f"{path}.{KEEP}") if KEEP in values else "")
    if isinstance(node, yaml.ScalarNode) and node.value == DROP:
        return spec_pb2.LateRows()
    word = node.value if isinstance(node, yaml.ScalarNode) else _UPDATE
    if word == _UPDATE:
        problem = (
            f"{path}: a row that was written is not updated by late ones: use {DROP}, or {{{KEEP}: SINK}}"
        )
        reader.fail(node, path, "LATE_UPDATE", problem, DROP)
    else:
        reader.fail(node, path, "UNKNOWN_VALUE", f"{path} must be {DROP} or {{{KEEP}: SINK}}", DROP)
    return spec_pb2.LateRows()


def show(rule: spec_pb2.LateRows) -> str | dict[str, str]:
    """Make the value of the key: the inverse of `read`."""
    return {KEEP: rule.keep} if rule.keep else DROP


def _names(node: yaml.MappingNode) -> set[str]:
    return {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
