"""Helpers of test_portal_live.py and of its neighbours."""

from __future__ import annotations

WINDOW_S, DAY_S = 60, 86_400
ENVELOPE = 5
