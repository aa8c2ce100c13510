"""The part of a browser, and of who sits in front of it: one form of the test provider after another."""

from __future__ import annotations

from html.parser import HTMLParser

import httpx

_FORMS = 8
"""Device, sign in, consent, and some to spare."""


class Form(HTMLParser):
    """The first form of a page: where it goes, and its fields."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action, self.fields = "", dict[str, str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if tag == "form" and not self.action:
            self.action = said.get("action", "")
        elif tag in ("input", "button") and said.get("name"):
            self.fields[said["name"]] = said.get("value", "")


def walk(browser: httpx.Client, page: str, login: str) -> httpx.Response:
    """Sign in where a page leads, and allow what is asked for; the page that no form is on."""
    shown = browser.get(page)
    for _ in range(_FORMS):
        form = Form(shown.text)
        if not form.action:
            break
        fields = {**form.fields, "login": login, "password": "any"} if "login" in form.fields else form.fields
        fields.pop("abort", None)
        shown = browser.post(httpx.URL(str(shown.url)).join(form.action), data=fields)
    return shown
