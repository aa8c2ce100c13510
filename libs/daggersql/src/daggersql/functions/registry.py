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
    """Find a function by its name, in any letter case; None without one."""
    return _ALL.get(name.upper())


def known_names() -> list[str]:
    """List all names worth suggesting, in the spelling of the documentation."""
    return [*(function.name for function in callable_functions()), *own_functions.NOT_YET]


def callable_functions() -> tuple[Function, ...]:
    """List the functions that a query can call by their names."""
    return tuple(_ALL.values())


def own() -> tuple[Function, ...]:
    """List our own functions: each has a file in runtime/functions/, named in lower case."""
    return own_functions.FUNCTIONS


def all_functions() -> tuple[Function, ...]:
    """List all functions, including those that a call selects by DISTINCT or by a unit of time."""
    by_unit = [function for units in times.BY_UNIT.values() for function in units.values()]
    return (*_ALL.values(), *once.FORMS.values(), distinct.COUNT_DISTINCT, *by_unit)


def forms() -> frozenset[Form]:
    """Collect all forms of functions: those of signatures, and those in modules of this folder."""
    return frozenset(form for function in all_functions() for form in function.forms) | frozenset(
        form for form in _module_values() if isinstance(form, Form)
    )


def _module_values() -> Iterator[object]:
    """Yield the values of the modules in this folder, also those in mappings."""
    for module in pkgutil.walk_packages(daggersql.functions.__path__, f"{daggersql.functions.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Mapping):
                yield from value.values()
            else:
                yield value
