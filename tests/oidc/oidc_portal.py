"""Helpers of test_oidc_portal.py and of its neighbours."""

from __future__ import annotations

import httpx
from daggers.v1 import access_pb2, gateway_pb2
from tests.oidc.browser import Form

WITHIN_S = 60
_FORMS = 8


async def at_the_provider(page: str, name: str) -> str:
    """Sign in there, and allow what is asked for: the path and query that the browser is sent back to."""
    async with httpx.AsyncClient(timeout=WITHIN_S) as provider:
        shown = await provider.get(page)
        for _ in range(3 * _FORMS):
            if shown.is_redirect:
                target = shown.url.join(shown.headers["location"])
                if target.path == "/auth/callback":
                    return target.raw_path.decode()
                shown = await provider.get(target)
                continue
            form = Form(shown.text)
            fields = (
                {**form.fields, "login": name, "password": "any"} if "login" in form.fields else form.fields
            )
            fields.pop("abort", None)
            shown = await provider.post(shown.url.join(form.action), data=fields)
    raise AssertionError(f"the provider shows {shown.text[:200]}")


async def who(browser: httpx.AsyncClient) -> tuple[int, access_pb2.Member | gateway_pb2.WhoAmIResponse]:
    """Who the browser is to the gateway."""
    answer = await browser.post(
        "/api/daggers.v1.AccessService/WhoAmI",
        content=gateway_pb2.WhoAmIRequest().SerializeToString(),
        headers={"content-type": "application/proto"},
    )
    good = answer.content if answer.status_code == 200 else b""
    return answer.status_code, gateway_pb2.WhoAmIResponse.FromString(good)
