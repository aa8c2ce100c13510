"""Helpers of test_oidc_login.py and of its neighbours."""

from __future__ import annotations

BROWSER = """\
import sys, httpx
from tests.oidc.browser import walk
with httpx.Client(follow_redirects=True, timeout=30) as browser:
    assert "You are logged in" in walk(browser, sys.argv[1], "ada").text
"""
