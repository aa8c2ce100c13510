"""Texts as Spark reads them: how whatever a user wrote comes into what is emitted."""

from __future__ import annotations


def quote_text(value: str) -> str:
    """The text as a Spark literal. The dollar is escaped: Spark fills in ${…} even inside literals."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"
