"""`daggers test`, and `daggers apply --test`, by a host behind a gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from cli.tests import cli_sample as sampling
from daggers.v1 import gateway_pb2, host_pb2

Step = gateway_pb2.PreviewDaggerResponse
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PASSES = """
tests:
- name: two orders
  given: {data_stream: [{city: x}, {city: x}]}
  expect: {rows: [{orders: 2}]}
"""
FAILS = (
    PASSES
    + """\
- name: three orders
  given: {data_stream: [{city: x}, {city: x}]}
  expect: {rows: [{orders: 3}], late: 1}
"""
)


class CountingHost(sampling.Host):
    """A host that counts the records that it is given, in one row."""

    async def PreviewHostDagger(  # noqa: N802 - gRPC's name
        self, request: host_pb2.PreviewHostDaggerRequest, context: Any
    ) -> AsyncIterator[Step]:
        row = gateway_pb2.Row(tags={"tag_city": "x"})
        row.time.FromDatetime(NOON)
        row.fields.add(name="orders", integer=sum(len(table.records) for table in request.given.tables))
        yield Step(rows=gateway_pb2.PreviewRows(rows=[row]))
        yield Step(done=gateway_pb2.PreviewDone(rows=1))


@pytest.fixture(scope="module")
def host() -> Any:
    """Address of a host, in a thread of its own."""
    yield from sampling.served(CountingHost())


gateway = sampling.gateway


def test_results_are_lines_and_one_that_fails_ends_the_command_with_1(shell: Any, dagger_file: str) -> None:
    shell.fill()
    passed = shell("test", shell.file("d.yaml", dagger_file + PASSES))
    failed = shell("test", "-f", shell.file("e.yaml", dagger_file + FAILS))
    only = shell("test", shell.file("e.yaml", dagger_file + FAILS), "--only", "two orders")

    assert (passed[0], failed[0], only[0]) == (0, 1, 0)
    assert "1 passed, 0 failed" in passed[2]
    lines = [line.split("  (")[0].strip() for line in failed[1].splitlines()]
    assert [line.partition(": ")[2] for line in lines[:2]] == ["two orders", "three orders"]
    assert [line.partition("  ")[0] for line in lines[:2]] == ["pass", "FAIL"]
    assert lines[2:] == [
        "expected row 1: orders is 2, not 3",
        '- {"orders": 3}',
        '+ {"tag_city": "x", "orders": 2, "window_timestamp": "2026-01-01T12:00:00Z"}',
        "0 late, 1 expected",
    ]


def test_json_is_one_document(shell: Any, dagger_file: str) -> None:
    shell.fill()
    code, out, _ = shell("test", shell.file("e.yaml", dagger_file + FAILS), "-o", "json")
    document = json.loads(out)

    assert code == 1
    assert (document["passed"], document["failed"]) == (1, 1)
    assert [test["passed"] for test in document["tests"]] == [True, False]
    assert [one["kind"] for one in document["tests"][1]["differences"]] == ["row_differs", "late"]
    assert document["tests"][1]["differences"][0]["columns"] == ["orders"]


def test_what_cannot_be_run_is_said_with_its_place(shell: Any, dagger_file: str) -> None:
    shell.fill()
    wrong = PASSES.replace("{city: x}, {city: x}", "{city: x}, {citty: 7}").replace("orders: 2", "order: 2")

    nothing = shell("test", shell.file("d.yaml", dagger_file))
    unknown = shell("test", shell.file("e.yaml", dagger_file + PASSES), "--only", "three")
    code, out, _ = shell("test", shell.file("f.yaml", dagger_file + wrong), "-o", "json")

    assert (nothing[0], unknown[0], code) == (1, 2, 1)
    assert "has no tests" in nothing[2]
    assert "two orders" in unknown[2]
    findings = {finding["field"]: finding for finding in json.loads(out)["error"]["findings"]}
    last = dagger_file.count("\n")
    assert {field: finding["line"] - last for field, finding in findings.items()} == {
        "tests[0].given[0].records[1]": 4,
        "tests[0].expect.rows[0]": 5,
    }
    assert "record 2: citty" in findings["tests[0].given[0].records[1]"]["message"]


def test_apply_refuses_a_file_whose_tests_fail(shell: Any, dagger_file: str) -> None:
    shell.fill()
    failing, passing = (shell.file(f"{n}.yaml", dagger_file + text) for n, text in enumerate((FAILS, PASSES)))

    code, _, err = shell("apply", failing, "--test")
    listed = json.loads(shell("list", "-o", "json")[1])
    applied = shell("apply", passing, "--test", "-o", "json")

    assert code == 1
    assert "three orders" in err
    assert listed == []
    assert (applied[0], json.loads(applied[1])["action"]) == (0, "created")
    assert json.loads(applied[1])["spec"]["tests"][0]["name"] == "two orders"
