"""Paths of this machine in what other programs read: options of a JVM, and which paths none may have.

A path is quoted for whoever reads it (`daggerspec.folders` has lists of them), or told from the working
directory, where nothing quotes. What no quoting carries is refused by `unusable`, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

_SPLITS_CLASS_PATHS: Final = ":"
_BMP_END: Final = "\uffff"


def unusable(path: Path) -> str | None:
    """Explain why a driver cannot work in a directory of this name, without the name; None when it can.

    Java divides class paths, and the shell PATH, at colons, without a way to quote them; Spark's launcher
    takes characters behind U+FFFF apart; control characters end lines in files of properties and in logs; a
    name that is no UTF-8 has no text at all.
    """
    text = str(path)
    if _SPLITS_CLASS_PATHS in text:
        return "it has a colon, at which Java divides lists of paths"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "its name is not UTF-8"
    if not all(character == " " or character.isprintable() for character in text):
        return "it has a control character, or a space that is none of the keyboard's"
    if any(character > _BMP_END for character in text):
        return "it has a character behind U+FFFF, an emoji say, which Spark's launcher takes apart"
    return None


def spark_options(options: Iterable[str]) -> str:
    """Options of a JVM as one text, which Spark's launcher takes apart at white space that is not quoted."""
    return " ".join(map(_quote, options))


def _quote(option: str) -> str:
    if option and not any(character.isspace() or character in "\"'\\" for character in option):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
