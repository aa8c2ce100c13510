"""Helpers of test_portal_studio.py and of its neighbours."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from tests.portal.portal_pages import STUDIOS

START = STUDIOS[0][0]
PREVIEW = re.compile("DaggerService/PreviewDagger")


def query(page: Page, text: str) -> None:
    """Write another query, by keys."""
    page.get_by_role("textbox", name="Query").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)


def completing(page: Page) -> None:
    """Type what a column of the stream completes, so that it is offered."""
    expect(page.get_by_text("rowtime", exact=True)).to_be_visible()
    query(page, "SELECT vehicle_")
    page.keyboard.press("Control+Space")
    expect(page.get_by_role("option", name="vehicle_type")).to_be_visible()
