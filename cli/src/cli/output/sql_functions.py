"""The functions of the dialect, as this version of the command knows them."""

from collections.abc import Mapping
from typing import Any

from cli.errors import RefusedError
from daggerspec.nearest import nearest
from daggersql.functions import registry
from daggersql.functions.reference import usage
from daggersql.functions.signature import Function


def documents() -> list[dict[str, Any]]:
    """Return the documents of all functions by name."""
    return [
        _build_document(function)
        for function in sorted(registry.callable_functions(), key=lambda function: function.name.lower())
    ]


def one(name: str) -> dict[str, Any]:
    """Return the document of a function, in any letter case. Raises: RefusedError."""
    function = registry.find(name)
    if function is None:
        suggestion = nearest(name, (function.name for function in registry.callable_functions()))
        hint = f": did you mean {suggestion}?" if suggestion else ""
        raise RefusedError(f"no function is called {name}{hint}", reason="UNKNOWN_FUNCTION")
    return _build_document(function)


def lines(document: Mapping[str, Any]) -> list[str]:
    """Format the document of a function as lines."""
    text = [document["usage"]]
    if document["about"]:
        text += ["", document["about"]]
    if document["parameters"]:
        text += [
            "",
            *(f"  {parameter['name']}: {parameter['about']}" for parameter in document["parameters"]),
        ]
    if document["examples"]:
        text += ["", *(f"  {example['call']}  -- {example['answer']}" for example in document["examples"])]
    return text


def _build_document(function: Function) -> dict[str, Any]:
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
