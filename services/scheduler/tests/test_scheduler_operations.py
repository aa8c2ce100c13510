"""The table of host operations: each entry is a method of HostService, and a process that the runtime has."""

from __future__ import annotations

import ast
import inspect
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import host_pb2

from scheduler.host.operation_table import TABLE
from scheduler.host.operations import HostOperation
from scheduler.host.service import HostService

METHODS = host_pb2.DESCRIPTOR.services_by_name["HostService"].methods_by_name


def read_by(module: str) -> list[object]:
    """What the process of a module tells `runtime.framed` that it reads."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return [
        ast.literal_eval(call.args[0])
        for call in ast.walk(ast.parse(Path(spec.origin).read_text("utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "framed.answer_job"
    ]


@pytest.mark.parametrize("operation", TABLE, ids=lambda operation: operation.method)
def test_an_operation_is_a_method_that_names_its_host_and_a_process_that_reads_what_it_says(
    operation: HostOperation[Any],
) -> None:
    asked = METHODS[operation.method].input_type

    assert {"host", "min_sequence"} <= set(asked.fields_by_name)
    assert read_by(operation.module) == [operation.reads]


def test_every_method_of_a_host_is_an_operation_or_written_out() -> None:
    written = {name for name, _ in inspect.getmembers(HostService, inspect.isfunction) if name[0].isupper()}

    assert sorted([*written, *(operation.method for operation in TABLE)]) == sorted(METHODS)
