"""Texts of others as a person can see them: escape sequences, overrides of direction and the like as escapes.

All that a command prints goes through here (`cli.output.printer`, `cli.output.console`).
"""

from __future__ import annotations

from typing import Final

_LAYOUT: Final = frozenset("\n\t")


def printable(text: str) -> str:
    """A text on a line: what would not be seen is escaped, as Python writes it."""
    return text if text.isprintable() else "".join(map(_escape, text))


def visible(text: str) -> str:
    """The same of several lines, which may have tabs."""
    if text.isprintable():
        return text
    return "".join(character if character in _LAYOUT else _escape(character) for character in text)


def json(text: str, encoding: str = "utf-8") -> str:
    """The same of a JSON document, which means what it meant; what an encoding lacks is escaped as well."""
    if not text.isprintable():
        text = "".join(character if character == "\n" else _escape_json(character) for character in text)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(character if character.isascii() else _unicode(character) for character in text)
    return text


def _escape(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _escape_json(character: str) -> str:
    return character if character.isprintable() else _unicode(character)


def _unicode(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[start : start + 2].hex()}" for start in range(0, len(units), 2))
