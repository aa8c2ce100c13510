"""Patterns of SIMILAR TO, told to Java as Flink (Calcite) tells them: what it does not change is Java's."""

from __future__ import annotations

import re

_SPECIAL = "_%^|*+?{}()[]-"
_CLASSES = {
    "ALPHA": r"\p{Alpha}", "UPPER": r"\p{Upper}", "LOWER": r"\p{Lower}", "DIGIT": r"\d",
    "ALNUM": r"\p{Alnum}", "SPACE": r"\x20", "WHITESPACE": r"\s",
}  # fmt: skip
_NAMED = re.compile(r"\[:([A-Za-z]+):\]")
_OUTSIDE = {"_": ".", "%": "(?s:.*)", "$": r"\$", "\\": r"\\"}


def java_regex(pattern: str, escape: str | None) -> str:
    """Java's regular expression for a whole text. Raises `ValueError` with a sentence about what is wrong.

    `escape`: the character that makes the next one plain.
    """
    parts, offset, inside = [], 0, False
    while offset < len(pattern):
        letter = pattern[offset]
        named = _NAMED.match(pattern, offset) if inside else None
        if letter == escape:
            offset += 1
            following = pattern[offset : offset + 1]
            if not following or following not in _SPECIAL + escape:
                raise ValueError(f"{escape!r} stands only before itself or one of {_SPECIAL} here.")
            parts.append(re.escape(following))
        elif named is not None:
            if named[1].upper() not in _CLASSES:
                raise ValueError(f"There is no class [:{named[1]}:]: there are {', '.join(_CLASSES)}.")
            parts.append(_CLASSES[named[1].upper()])
            offset = named.end() - 1
        elif inside:
            parts.append(r"\\" if letter == "\\" else r"\[" if letter == "[" else letter)
            inside = letter != "]"
        else:
            parts.append(_OUTSIDE.get(letter, letter))
            inside = letter == "["
        offset += 1
    return f"\\A(?:{''.join(parts)})\\z"
