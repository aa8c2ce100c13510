"""Calls that only conditions of rules have: each becomes a column of the rows, which the driver adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from daggersql.syntax import tree

Read: TypeAlias = Callable[[tree.Anonymous], str]
"""Reads a call; returns the column in its place, empty where it is wrong, which was reported."""


def replace_calls(node: tree.Node, reads: Mapping[str, Read]) -> tree.Node:
    """Replace the calls of functions in a condition by columns; one that is wrong by NULL. reads: by name."""
    if isinstance(node, tree.Anonymous) and node.name.lower() in reads:
        column = reads[node.name.lower()](node)
        replaced: tree.Node = tree.Null()
        if column:
            replaced = tree.Column(this=tree.Identifier(this=column, quoted=True))
            replaced.this.meta.update(node.meta)
        replaced.meta.update(node.meta)
        return replaced
    for name, part in node.args.items():
        if isinstance(part, list):
            node.args[name] = [
                replace_calls(one, reads) if isinstance(one, tree.Node) else one for one in part
            ]
        elif isinstance(part, tree.Node):
            node.args[name] = replace_calls(part, reads)
    return node
