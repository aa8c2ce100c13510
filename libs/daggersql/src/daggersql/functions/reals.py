"""Text as a number, as Java reads it (https://docs.oracle.com/javase/8/docs/api/java/lang/Double.html#valueOf-java.lang.String-)
and so Spark's casts, which take some further words."""

from __future__ import annotations

import re
from typing import Final

_BLANK = "".join(map(chr, range(0x21)))
_HEX = r"0[xX](?P<hex>[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
_REAL = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|" + _HEX + r")[fFdD]?)"
)
SPARK_KNOWS_BETTER: Final = "(rlike({0}, '(?i)inf|nan') AND NOT rlike({0}, 'Infinity|NaN'))"
"""SQL that tells whether a text is one of the words that only Spark takes for a number, such as `inf`."""


def digits(text: str) -> str | None:
    """Remove blanks around a number and the letter behind it; None when the text is no number."""
    match = _REAL.fullmatch(text.strip(_BLANK))
    if match is None:
        return None
    return match[0].rstrip("fFdD")


def read(text: str) -> float | None:
    """Read a number, infinite beyond the range of a double; None when the text is none."""
    plain = digits(text)
    if plain is None:
        return None
    try:
        return float.fromhex(plain) if "x" in plain.lower() else float(plain)
    except OverflowError:  # of hexadecimal ones only
        return float("-inf") if plain.startswith("-") else float("inf")
