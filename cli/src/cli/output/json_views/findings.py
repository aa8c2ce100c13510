"""Findings of a specification, and its output columns."""

from typing import Any

from daggers.v1 import gateway_pb2

from chassis.errors import violation
from cli.output.json_views.answers import to_json
from daggerclient import findings


def finding(given: gateway_pb2.Finding) -> dict[str, Any]:
    """Convert a finding of the gateway; its place is null outside of SQL."""
    severity = gateway_pb2.Severity.Name(given.severity).removeprefix("SEVERITY_").lower()
    return {**findings.finding(violation(given)), "severity": severity}


def column(output: gateway_pb2.OutputColumn) -> dict[str, Any]:
    """Convert an output column; with `cell` where its values are cells of a map."""
    cell = gateway_pb2.OutputColumn.Cell.Name(output.cell).removeprefix("CELL_").lower()
    return to_json(output) | ({"cell": cell} if output.cell else {})
