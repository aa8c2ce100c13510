"""Quoting: the only way for a user's text into emitted SQL."""

from __future__ import annotations


def quote_text(value: str) -> str:
    """Quote text as a Spark literal. Dollars are escaped, as Spark substitutes ${…} even inside literals."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"
