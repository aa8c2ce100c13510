"""Names of time zones: those of the package tzdata, never the machine's own."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

import tzdata  # type: ignore[import-untyped]  # it is but a folder of data

UTC: Final = "UTC"


@cache
def names() -> frozenset[str]:
    """Return every zone of tzdata."""
    return frozenset((resources.files(tzdata) / "zones").read_text(encoding="ascii").split())
