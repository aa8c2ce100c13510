"""CollectArray(x): the values of a group as a list, NULLs included.

The fast form is native: `daggersql.functions.own` writes it into the query. State is the values themselves;
a group of more than 10,000 gives NULL.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.values.registration import Registration


def reference(rows: Iterable[tuple[object]]) -> list[object]:
    """Return the values of rows (x,) in the order they came."""
    return [value for (value,) in rows]


def register(session: Registration) -> None:
    """Bring the flag that counts groups of too many rows: Spark keeps the lists."""
    session.flag("collectarray", "collectarray_toomany")
