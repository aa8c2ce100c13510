"""Functions of our own. This folder is the registry: `functions/s2id.py` is the function `S2Id`.

A function is a module that has

    reference(...)          the plain Python answer for one row (one group, for an aggregate)
    register(session)       brings the fast form to a session, under the module's name
    compute(...)            the fast form itself, over Arrow arrays, where readers may call it: its signature
                            has `computed` then
    codes(...), text(codes) beside it, where a number of 64 bits can stand for each text: readers group by
                            that, and make the text of groups only

Its signature, types and the checks of its constants are in `daggersql.functions.own`, which knows no Spark;
a test holds both lists together. Only the modules that a query names are imported.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from runtime.errors import internal


@cache
def names() -> tuple[str, ...]:
    """List all functions by their module's name, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(name: str) -> ModuleType:
    """Import the module of one function.

    Raises `JobError` (INTERNAL) for an unknown name, which the check of the query has let through by mistake.
    """
    if name not in names():
        raise internal("UNKNOWN_FUNCTION", f"There is no function {name!r}; there are {', '.join(names())}.")
    return importlib.import_module(f"{__name__}.{name}")
