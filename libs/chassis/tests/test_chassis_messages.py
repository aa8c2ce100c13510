"""Which calls may bring more than others."""

from __future__ import annotations

from daggers.v1 import gateway_pb2, host_pb2

from chassis.interceptors import methods
from chassis.messages import MAX_CARRIER, MAX_MESSAGE, carries, largest


def test_what_carries_a_schema_or_a_query_may_be_large_and_nothing_else() -> None:
    large = {method.name for method in methods(gateway_pb2.DESCRIPTOR) if carries(method)}

    assert large == {
        "ApplyDagger",
        "CompileSchema",
        "CreateDagger",
        "DiscoverTopics",
        "PlanDagger",
        "PreviewDagger",
        "RegisterSchema",
        "TestDagger",
        "TestSink",
        "UpdateDagger",
        "Validate",
    }
    sizes = {largest(method) for method in methods(gateway_pb2.DESCRIPTOR)}
    assert sizes == {MAX_MESSAGE, MAX_CARRIER}


def test_a_gateway_asks_hosts_with_schemas_and_queries_too() -> None:
    large = {method.name for method in methods(host_pb2.DESCRIPTOR) if carries(method)}

    assert {"PreviewHostDagger", "TestHostSink"} <= large
