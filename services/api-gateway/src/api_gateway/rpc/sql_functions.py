"""List the functions that queries may call."""

from __future__ import annotations

from functools import cache

from daggers.v1 import gateway_pb2

from daggersql.functions import registry
from daggersql.functions.reference import usage
from daggersql.functions.signature import Function


@cache
def list_functions() -> gateway_pb2.ListFunctionsResponse:
    """Build the list of all functions of this version, by name."""
    functions = sorted(registry.callable_functions(), key=lambda function: function.name.lower())
    return gateway_pb2.ListFunctionsResponse(functions=[_build_function(function) for function in functions])


def _build_function(function: Function) -> gateway_pb2.SqlFunction:
    message = gateway_pb2.SqlFunction(
        name=function.name,
        usage=usage(function),
        aggregate=function.aggregate,
        table=function.rows is not None,
    )
    if (doc := function.doc) is not None:
        message.about = doc.about
        for name, about in doc.parameters:
            message.parameters.add(name=name, about=about)
        for call, answer in doc.examples:
            message.examples.add(call=call, answer=answer)
    return message
