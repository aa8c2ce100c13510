"""The page of the audit: newest first, narrowed, a page at a time; what a caller wrote is shown as text."""

from __future__ import annotations

import re
from collections.abc import Callable

from daggers.v1 import audit_pb2, gateway_pb2
from playwright.sync_api import Route, expect
from tests.portal.conftest import Visit

Opened = Callable[..., Visit]
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
PREVIEW = audit_pb2.CallAudited(
    principal="user:ada",
    method="/daggers.v1.DaggerService/PreviewDagger",
    teams=["pricing"],
    allowed=True,
    reason="ROLE",
    kind=audit_pb2.AUDIT_KIND_PREVIEW,
    asked='{"spec": {"sql": "SELECT email FROM `data_stream`", "team": "pricing"}}',
    sensitive=["bookings.email"],
)
PROBE = audit_pb2.CallAudited(
    method="/daggers.v1.DaggerService/ListDaggers",
    subject=HOSTILE,
    refused=True,
    reason="TOKEN_REQUIRED",
    detail=HOSTILE,
    kind=audit_pb2.AUDIT_KIND_UNAUTHENTICATED,
    peer="10.1.2.3",
    calls=40,
)


def test_the_audit_is_shown_newest_first_and_narrowed_as_somebody_says(visit: Opened) -> None:
    one = visit()
    asked: list[gateway_pb2.ListAuditRecordsRequest] = []

    def answer(route: Route) -> None:
        request = gateway_pb2.ListAuditRecordsRequest.FromString(route.request.post_data_buffer or b"")
        asked.append(request)
        call, sequence = (PROBE, 1) if request.page_token else (PREVIEW, 2)
        told = gateway_pb2.ListAuditRecordsResponse(
            records=[gateway_pb2.AuditRecord(call=call, sequence=sequence)],
            next_page_token="" if request.page_token else "older",
        )
        route.fulfill(status=200, body=told.SerializeToString(), content_type="application/proto")

    one.page.route(re.compile("AuditService/ListAuditRecords"), answer)
    page = one.open("/audit?principal=user:ada", "Audit")
    row = page.get_by_role("row").filter(has_text="PreviewDagger")
    expect(row).to_contain_text("with bookings.email")
    row.get_by_text("What was asked").click()
    expect(row).to_contain_text("SELECT email FROM `data_stream`")
    page.get_by_role("button", name="Older records").click()
    probe = page.get_by_role("row").filter(has_text="ListDaggers")
    expect(probe).to_contain_text("no valid token, from 10.1.2.3")
    expect(probe).to_contain_text(f"TOKEN_REQUIRED: {HOSTILE} (40 calls)")
    expect(page.locator("td img")).to_have_count(0)
    page.get_by_label("Kind").select_option("preview")
    expect(page).to_have_url(re.compile("kind=preview"))

    assert page.title() == "Audit · Daggers"
    assert asked[0].principal == "user:ada"
    assert [request.page_token for request in asked[:2]] == ["", "older"]
    assert list(asked[-1].kinds) == [audit_pb2.AUDIT_KIND_PREVIEW]
    assert asked[-1].HasField("since")
