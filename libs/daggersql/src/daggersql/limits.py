"""How large a query may be. Every limit is checked before work is done that grows with what it limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from daggersql.findings import Refused, Span

MAX_BYTES = 256 * 1024
MAX_TOKENS = 45_000
MOST_REPAIRED = 16 * 1024
"""Characters of a text that cannot be read and whose repair is looked for: each attempt is a check."""
MAX_DEPTH = 100
"""Nesting of brackets, CASE and prefix operators, and the length of a chain of arithmetic operators."""
MAX_TREE_DEPTH = 2 * MAX_DEPTH
MAX_IDENTIFIER = 128
MAX_COLUMNS = 1_000
MAX_FIELDS = 5_000
"""Fields of all columns together that are read, or that a row has, all messages looked into: a driver has an
array of 50 KB for each.
"""
MAX_LIST = 10_000
MAX_JOINS = 10
MAX_BRANCHES = 100
"""Branches of a UNION ALL."""
MAX_WINDOW = timedelta(days=31)
MAX_JOIN_BOUND = timedelta(days=7)
"""How far apart in time partners of a join may be."""
MAX_INTERVAL = timedelta(days=36_525)
"""Of any INTERVAL: a timestamp and a hundred years is still a timestamp."""
MAX_HOPS = 1_440
"""Windows that one record may be in: size / slide of a HOP."""
MAX_TOP = 1_000
"""Rows that a Top-N keeps of each of its groups: all of them are state."""
MAX_TEXT = 1024 * 1024
"""Characters of a text that REPEAT or a pad function may make."""
MAX_REGEX = 1_000
MAX_REGEXES = 16 * 1024
"""Characters of all patterns of a query, the same one counted once."""
MOST_WILD = 4
"""How many % of a LIKE stand before other text: each may stand for every part of the text."""

MAX_EMITTED = MAX_BYTES + MAX_BYTES // 8
"""Characters of one expression as Spark is told it: a form may name its argument several times. Room for the
longest list of constants; of forms in forms Spark takes minutes to make code of more.
"""
MAX_ALL_EMITTED = 4 * 1024 * 1024
"""Of all columns together."""

MAX_EXPANSION = 10_000
"""Nodes of all expressions that columns of sub-queries stand for, each time they are named."""


@dataclass(slots=True)
class Budget:
    """What naming the columns of sub-queries may still cost: each name stands for a whole expression."""

    left: int = MAX_EXPANSION

    def spend(self, nodes: int, span: Span) -> None:
        """Raises: Refused QUERY_TOO_LARGE when nothing is left."""
        self.left -= nodes
        if self.left < 0:
            raise Refused(
                "QUERY_TOO_LARGE", span, "Sub-queries that use each other's columns grow too large."
            )


def check_size(sql: str) -> None:
    """Raises: Refused QUERY_TOO_LARGE. Never encodes a text whose length alone is too much."""
    if len(sql) > MAX_BYTES or len(sql.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise Refused(
            "QUERY_TOO_LARGE",
            (0, 0),
            f"The query is larger than {MAX_BYTES // 1024} KiB: split it into several daggers.",
        )
