"""ListFunctions: what a query may call."""

from __future__ import annotations

from typing import Any

from daggers.v1 import gateway_pb2 as pb

from daggersql.functions import registry


async def test_every_function_is_told_with_how_it_is_called(ready: Any) -> None:
    answer = await ready.catalog.ListFunctions(pb.ListFunctionsRequest(), timeout=10)
    listed = {function.name: function for function in answer.functions}

    assert [*listed] == sorted(listed, key=str.lower)
    assert {*listed} == {function.name for function in registry.callable_functions()}
    assert all(function.usage.startswith(f"{function.name}(") for function in answer.functions)


async def test_a_function_of_our_own_has_its_documentation(ready: Any) -> None:
    answer = await ready.catalog.ListFunctions(pb.ListFunctionsRequest(), timeout=10)
    listed = {function.name: function for function in answer.functions}
    cell, buckets = listed["S2Id"], listed["HistogramBucket"]

    assert cell.usage == "S2Id(latitude, longitude, level) → STRING"
    assert [parameter.name for parameter in cell.parameters] == ["latitude", "longitude", "level"]
    assert cell.about
    assert cell.examples[0].call.startswith("S2Id(")
    assert (cell.aggregate, cell.table, buckets.table, listed["SUM"].aggregate) == (False, False, True, True)


async def test_what_has_no_names_says_what_stands_in_each_place(ready: Any) -> None:
    answer = await ready.catalog.ListFunctions(pb.ListFunctionsRequest(), timeout=10)
    usages = {function.name: function.usage for function in answer.functions}

    assert usages["LOCATE"] == "LOCATE(text, text, [a whole number]) → INT"
    assert usages["ABS"] == "ABS(a number)"
    assert usages["CONCAT"] == "CONCAT(text, …) → STRING"
