"""Features(key, value, …): a feature row for each pair of each row of a group.

The fast form is native: `daggersql.functions.own` writes it into the query. State is the pairs of at most
10,000 rows a group; a group of more gives NULL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runtime.values.featurerows import Feature, infer_feature
from runtime.values.registration import Registration


def reference(rows: Iterable[tuple[Any, ...]]) -> list[Feature]:
    """Build the features of rows (key, value, key, value, …), in order."""
    return [infer_feature(row[index], row[index + 1]) for row in rows for index in range(0, len(row), 2)]


def register(session: Registration) -> None:
    """Bring the flag that counts groups of too many rows: Spark keeps the pairs."""
    session.flag("features", "features_toomany")
