"""SingleFeatureWithType(key, value, type, …): the feature rows of one row, converted to named types.

The fast form is native: `daggersql.functions.own` writes it into the query.
"""

from __future__ import annotations

from typing import Any

from runtime.values.featurerows import Feature, distinct
from runtime.values.registration import Registration


def reference(*arguments: Any) -> list[Feature]:
    """Build the features of key, value, type, key, value, type, …, equal ones once."""
    return distinct(
        (arguments[index], arguments[index + 1], arguments[index + 2])
        for index in range(0, len(arguments), 3)
    )


def register(session: Registration) -> None:
    """Bring the flag that counts values that their type cannot hold."""
    session.flag("singlefeaturewithtype", "singlefeaturewithtype_bad")
