"""The tab Tests of the studio in a real browser: a test is written, filled with records, run, and mended."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daggers.v1 import catalog_service_pb2, query_tests_pb2
from playwright.sync_api import Route, expect
from tests.portal.answers import answer
from tests.portal.axe import violations
from tests.portal.conftest import Visit
from tests.portal.portal_studio import START

Opened = Callable[..., Visit]
Difference = query_tests_pb2.TestDifference
TEST = re.compile("DaggerService/TestDagger")
SAMPLE = re.compile("CatalogService/SampleStream")
RECORD = '{"status": "COMPLETED", "city_id": 9007199254740993}'
CAME = '{"records": 2}'


def test_a_test_is_written_run_and_mended(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    requests: list[query_tests_pb2.TestDaggerRequest] = []

    def run(route: Route) -> None:
        body: Any = route.request.post_data_buffer
        request = query_tests_pb2.TestDaggerRequest.FromString(body[5:])
        requests.append(request)
        [test] = request.spec.tests
        passed = list(test.expect.rows) == [CAME]
        difference = Difference(
            kind=Difference.KIND_ROW_DIFFERS,
            expected='{"records": 1}',
            actual=CAME,
            columns=["records"],
            sentence="expected row 1: records is 2, not 1",
        )
        result = query_tests_pb2.TestResult(
            test=test.name,
            passed=passed,
            differences=[] if passed else [difference],
            differences_total=0 if passed else 1,
            rows=1,
            took_ms=700,
            actual=[CAME],
        )
        done = query_tests_pb2.TestsDone(passed=int(passed), failed=int(not passed))
        steps = [
            query_tests_pb2.TestDaggerResponse(result=result),
            query_tests_pb2.TestDaggerResponse(done=done),
        ]
        answer(route, steps)

    sampled = catalog_service_pb2.SampledRecord(topic="booking-log", json=RECORD)
    step = catalog_service_pb2.SampleStreamResponse(records=[sampled, sampled])
    one.page.route(SAMPLE, lambda route: answer(route, [step]))
    one.page.route(TEST, run)
    page = one.open(START, "New dagger")
    page.get_by_role("tab", name="Tests").click()
    tests = page.get_by_role("region", name="Tests")
    expect(tests).to_contain_text("There is no test yet")
    tests.get_by_role("button", name="Add a test").click()
    tests.get_by_label("Name of the test").fill("two bookings")
    tests.get_by_label("Name of the test").press("Tab")
    tests.get_by_role("button", name="Add newest records of bookings").click()
    expect(tests.get_by_label("Records of bookings")).to_have_value(f"{RECORD}\n{RECORD}")
    rows = tests.get_by_label("Expected rows")
    rows.fill('{"records": 1}')
    rows.press("Tab")
    tests.get_by_role("button", name="Run two bookings").click()
    expect(tests.get_by_text("Failed", exact=True)).to_be_visible()
    expect(tests).to_contain_text("Expected row 1: records is 2, not 1.")
    difference = tests.get_by_role("region", name="Difference 1")
    expect(difference.get_by_role("row").nth(1)).to_contain_text("Expected1")
    expect(difference.get_by_role("row").nth(2)).to_contain_text("Came2")
    failing = violations(page, packages)
    tests.get_by_role("button", name="Expect the rows that came").click()
    expect(rows).to_have_value(CAME)
    tests.get_by_role("button", name="Run all tests").click()

    expect(tests.get_by_text("Passed", exact=True)).to_be_visible()
    expect(tests).to_contain_text("1 of 1 passed.")
    assert failing == []
    assert [list(request.tests) for request in requests] == [["two bookings"], []]
    [given] = requests[0].spec.tests[0].given
    assert (given.table, list(given.records)) == ("bookings", [RECORD, RECORD])


def test_a_tests_findings_are_the_gateways(visit: Opened) -> None:
    one = visit()
    page = one.open(START, "New dagger")
    page.get_by_role("tab", name="Tests").click()
    tests = page.get_by_role("region", name="Tests")
    tests.get_by_role("button", name="Add a test").click()
    records = tests.get_by_label("Records of bookings")
    records.fill('{"statuss": 1}')
    records.press("Tab")
    page.get_by_role("tab", name="Findings").click()

    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("of test Test 1, bookings, record 1: statuss")
    page.get_by_role("tab", name="Tests").click()
    expect(records).to_have_value('{"statuss": 1}')
