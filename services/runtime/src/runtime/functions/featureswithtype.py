"""FeaturesWithType(key, value, type, …): the feature rows of a group, converted to named types.

The fast form is native: `daggersql.functions.own` writes it into the query. State is the triplets of at most
10,000 rows a group; a group of more gives NULL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runtime.values.featurerows import Feature, distinct
from runtime.values.registration import Registration


def reference(rows: Iterable[tuple[Any, ...]]) -> list[Feature]:
    """Build the features of rows (key, value, type, key, value, type, …), equal ones once."""
    return distinct(
        (row[index], row[index + 1], row[index + 2]) for row in rows for index in range(0, len(row), 3)
    )


def register(session: Registration) -> None:
    """Bring the flags that count invalid values and groups of too many rows: Spark keeps the triplets."""
    session.flag("featureswithtype", "featureswithtype_toomany")
    session.flag("featureswithtype", "featureswithtype_bad")
