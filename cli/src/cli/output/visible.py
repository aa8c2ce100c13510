"""Make texts of others visible: escape sequences, overrides of direction and the like are escaped.

All output of commands passes through here (`cli.output.printer`, `cli.output.console`).
"""

from __future__ import annotations

from typing import Final

_LAYOUT: Final = frozenset("\n\t")


def printable(text: str) -> str:
    """Escape invisible characters of a text that goes on one line, as Python's literals do."""
    return text if text.isprintable() else "".join(map(_escape, text))


def visible(text: str) -> str:
    """Escape invisible characters of a text, except newlines and tabs."""
    if text.isprintable():
        return text
    return "".join(character if character in _LAYOUT else _escape(character) for character in text)


def json(text: str, encoding: str = "utf-8") -> str:
    """Escape invisible characters of a JSON document, and characters that `encoding` lacks;
    its value stays.
    """
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
