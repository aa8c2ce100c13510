"""People who log in at a provider, as they do in a deployment."""

from __future__ import annotations

from tests.portal.conftest import Visit


def log_in(one: Visit, name: str, path: str = "/", heading: str = "Daggers") -> None:
    """Open a page, which leads to the provider; say there who one is, and allow what is asked for."""
    page = one.page
    page.goto(f"{one.site}{path}")
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("heading", level=1, name=heading).wait_for()
