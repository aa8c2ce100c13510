"""What a query may call, for whoever writes one."""

from __future__ import annotations

from functools import cache

from daggers.v1 import gateway_pb2

from daggersql.functions import registry
from daggersql.functions.reference import usage
from daggersql.functions.signature import Function


@cache
def listed() -> gateway_pb2.ListFunctionsResponse:
    """Every function of this version, by name."""
    known = sorted(registry.callable_functions(), key=lambda function: function.name.lower())
    return gateway_pb2.ListFunctionsResponse(functions=[_told(function) for function in known])


def _told(function: Function) -> gateway_pb2.SqlFunction:
    told = gateway_pb2.SqlFunction(
        name=function.name,
        usage=usage(function),
        aggregate=function.aggregate,
        table=function.rows is not None,
    )
    if (doc := function.doc) is not None:
        told.about = doc.about
        for name, about in doc.parameters:
            told.parameters.add(name=name, about=about)
        for call, answer in doc.examples:
            told.examples.add(call=call, answer=answer)
    return told
