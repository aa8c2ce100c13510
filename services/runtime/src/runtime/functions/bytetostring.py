"""ByteToString(bytes): bytes as text, read as UTF-8 as Java reads it; what is none becomes U+FFFD.

The fast form is native: what is UTF-8 is left as it is, and format_string makes a text of Java of the rest.
"""

from __future__ import annotations

import codecs
from typing import Final

from runtime.values.registration import Registration

_ENCODED_SURROGATE: Final = 0xED
_AS_JAVA: Final = "daggers.as_java"


def reference(data: bytes | None) -> str | None:
    """Decode bytes as UTF-8 as Java does; None for NULL."""
    return None if data is None else data.decode("utf-8", errors=_AS_JAVA)


def register(session: Registration) -> None:
    """Bring nothing: Spark has it."""


def _replace_invalid(error: UnicodeError) -> tuple[str, int]:
    """Replace invalid bytes by one U+FFFD, and return where to read on.

    Python objects to the first byte only of an encoded surrogate; Java replaces all of it by one sign.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, end = error.object, error.end
    if data[error.start] == _ENCODED_SURROGATE:
        while end < min(error.start + 3, len(data)) and data[end] & 0xC0 == 0x80:
            end += 1
    return "\ufffd", end


codecs.register_error(_AS_JAVA, _replace_invalid)
