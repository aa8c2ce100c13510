"""The functions of the dialect, as this version of the command knows them."""

from collections.abc import Mapping
from typing import Any

from cli.errors import RefusedError
from daggerspec.nearest import nearest
from daggersql.functions import registry
from daggersql.functions.reference import usage
from daggersql.functions.signature import Function


def listed() -> list[dict[str, Any]]:
    """All of them, by name."""
    return [
        _told(function)
        for function in sorted(registry.callable_functions(), key=lambda known: known.name.lower())
    ]


def one(name: str) -> dict[str, Any]:
    """The one of that name, in any letter case. Raises: RefusedError."""
    function = registry.find(name)
    if function is None:
        meant = nearest(name, (known.name for known in registry.callable_functions()))
        hint = f": did you mean {meant}?" if meant else ""
        raise RefusedError(f"no function is called {name}{hint}", reason="UNKNOWN_FUNCTION")
    return _told(function)


def lines(told: Mapping[str, Any]) -> list[str]:
    """One function for a reader."""
    text = [told["usage"]]
    if told["about"]:
        text += ["", told["about"]]
    if told["parameters"]:
        text += ["", *(f"  {taken['name']}: {taken['about']}" for taken in told["parameters"])]
    if told["examples"]:
        text += ["", *(f"  {shown['call']}  -- {shown['answer']}" for shown in told["examples"])]
    return text


def _told(function: Function) -> dict[str, Any]:
    doc = function.doc
    return {
        "name": function.name,
        "usage": usage(function),
        "about": doc.about if doc else "",
        "parameters": [{"name": name, "about": about} for name, about in (doc.parameters if doc else ())],
        "examples": [{"call": call, "answer": answer} for call, answer in (doc.examples if doc else ())],
        "aggregate": function.aggregate,
        "table": function.rows is not None,
    }
