"""All functions by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping

import daggersql.functions
from daggersql.functions import aggregates, distinct, general, json, numbers, once, text, times
from daggersql.functions import own as own_functions
from daggersql.functions.signature import Function
from daggersql.ir.ops import Form

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
    return [*(function.name for function in known()), *own_functions.NOT_YET]


def known() -> tuple[Function, ...]:
    """Every function that a query calls by its name."""
    return tuple(_ALL.values())


def own() -> tuple[Function, ...]:
    """Our own functions: each has a file in runtime/functions/, named in lower case."""
    return own_functions.FUNCTIONS


def all_functions() -> tuple[Function, ...]:
    """Every function, those included that a call means by its DISTINCT or by a unit of time."""
    by_unit = [function for units in times.BY_UNIT.values() for function in units.values()]
    return (*_ALL.values(), *once.FORMS.values(), distinct.COUNT_DISTINCT, *by_unit)


def forms() -> frozenset[Form]:
    """Every form of a function: those of signatures, and those that a module of this folder holds."""
    return frozenset(form for function in all_functions() for form in function.forms) | frozenset(
        form for form in _held() if isinstance(form, Form)
    )


def _held() -> Iterator[object]:
    """What modules below this folder hold, one by one or in mappings."""
    for module in pkgutil.walk_packages(daggersql.functions.__path__, f"{daggersql.functions.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Mapping):
                yield from value.values()
            else:
                yield value
