"""ByteToString(bytes): bytes as text, read as UTF-8; what is none becomes U+FFFD.

The fast form is native: `make_valid_utf8`, which replaces the same sequences as Python and Java do.
"""

from __future__ import annotations

from runtime.values.registration import Registration


def reference(data: bytes | None) -> str | None:
    """The text of some bytes."""
    return None if data is None else data.decode("utf-8", errors="replace")


def register(session: Registration) -> None:
    """Nothing to bring: Spark has it."""
