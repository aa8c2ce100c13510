"""All functions by name."""

from __future__ import annotations

from collections.abc import Mapping

from daggersql.functions import aggregates, general, json, numbers, text, times
from daggersql.functions import own as own_functions
from daggersql.functions.signature import Function

_ALL: Mapping[str, Function] = {
    function.name.upper(): function
    for group in (text, numbers, general, times, json, aggregates, own_functions)
    for function in group.FUNCTIONS
}


def find(name: str) -> Function | None:
    """The function of that name, in any letter case."""
    return _ALL.get(name.upper())


def known_names() -> list[str]:
    """Every name worth suggesting, as the documentation writes it."""
    return [*(function.name for function in _ALL.values()), *own_functions.NOT_YET]


def own() -> tuple[Function, ...]:
    """Our own functions: each has a file in runtime/functions/, named in lower case."""
    return own_functions.FUNCTIONS
