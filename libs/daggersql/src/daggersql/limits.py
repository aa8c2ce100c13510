"""Limits of a query. Each is checked before any work whose cost grows with the limited size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from daggersql.findings import QueryError, Span

MAX_BYTES = 256 * 1024
MAX_TOKENS = 45_000
MOST_REPAIRED = 16 * 1024
"""Characters of an unreadable text for which repairs are tried: each attempt is a whole check."""
MAX_DEPTH = 100
"""Nesting of brackets, CASE and prefix operators, and the length of a chain of arithmetic operators."""
MAX_TREE_DEPTH = 2 * MAX_DEPTH
MAX_IDENTIFIER = 128
MAX_COLUMNS = 1_000
MAX_FIELDS = 5_000
"""Fields of all read columns together, or of a row, including those of nested messages: a driver has an array
of 50 KB for each.
"""
MAX_LIST = 10_000
MAX_JOINS = 10
MAX_BRANCHES = 100
"""Branches of a UNION ALL."""
MAX_WINDOW = timedelta(days=31)
MAX_JOIN_BOUND = timedelta(days=7)
"""Maximum distance in time of the partners of a join."""
MAX_INTERVAL = timedelta(days=36_525)
"""Maximum of an INTERVAL: a timestamp plus a hundred years is still a timestamp."""
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
"""Maximum of % before other text in a LIKE pattern: each may match any part, so attempts multiply."""

MAX_EMITTED = MAX_BYTES + MAX_BYTES // 8
"""Characters of one emitted expression: a form may repeat its argument. It has room for the longest list of
constants; for more of nested forms, Spark takes minutes to generate code.
"""
MAX_ALL_EMITTED = 4 * 1024 * 1024
"""Characters of all emitted columns together."""

MAX_EXPANSION = 10_000
"""Nodes of the expressions that replace columns of sub-queries, counted at each use."""


@dataclass(slots=True)
class Budget:
    """Nodes that columns of sub-queries may still expand to: each use of one inserts a whole expression."""

    left: int = MAX_EXPANSION

    def spend(self, nodes: int, span: Span) -> None:
        """Subtract nodes from the budget. Raises: QueryError QUERY_TOO_LARGE when it is used up."""
        self.left -= nodes
        if self.left < 0:
            raise QueryError(
                "QUERY_TOO_LARGE", span, "Sub-queries that use each other's columns grow too large."
            )


def check_size(sql: str) -> None:
    """Check the size of a text, before encoding it if possible. Raises: QueryError QUERY_TOO_LARGE."""
    if len(sql) > MAX_BYTES or len(sql.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise QueryError(
            "QUERY_TOO_LARGE",
            (0, 0),
            f"The query is larger than {MAX_BYTES // 1024} KiB: split it into several daggers.",
        )
