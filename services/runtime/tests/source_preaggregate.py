"""Helpers of test_source_preaggregate.py and of its neighbours."""

from __future__ import annotations

from datetime import timedelta

MINUTE = timedelta(minutes=1)
