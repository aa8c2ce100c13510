"""Reads escapes and classes in brackets of Java's regular expressions as sets of characters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce

from daggersql.functions.codepoints import (
    EVERYTHING,
    NOTHING,
    CodePoints,
    both_cases,
    characters,
    complement,
    intersection,
    union,
)
from daggersql.functions.javaclasses import CLASSES, find_class

MAX_DEPTH = 100
"""Maximum nesting of groups, and of classes."""
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_CONTROL = re.compile(r"[@-\[\]-_a-z?]")
_NUMBERS = (
    (re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})"), 8),
    (re.compile(r"x\{([0-9a-fA-F]{1,6})\}"), 16),
    (re.compile(r"x([0-9a-fA-F]{2})"), 16),
    (re.compile(r"u([0-9a-fA-F]{4})"), 16),
)
_COMMENT = re.compile(r"[ \t\n\x0b\f\r]+|#[^\n\r\x85\u2028\u2029]*")


@dataclass(slots=True)
class ClassReader:
    """Reads from left to right. Flags are Java's letters; only i and x matter here. Raises: re.error."""

    text: str
    native: bool
    """True if Java itself will run the pattern: then forms that only Java has are accepted."""
    offset: int = 0
    depth: int = 0

    def comment(self) -> bool:
        """Skip a comment or a blank of the flag x; True if there was one."""
        match = _COMMENT.match(self.text, self.offset)
        self.offset = match.end() if match else self.offset
        return match is not None

    def quotation(self) -> str:
        r"""Read from the Q of `\Q` up to its `\E`, or to the end."""
        text, _, _ = self.text[self.offset + 1 :].partition("\\E")
        self.offset = min(len(self.text), self.offset + 1 + len(text) + 2)
        return text

    def set_of_escape(self, flags: frozenset[str]) -> CodePoints | None:
        """Read an escape that stands for a set of characters; None, and nothing is read, for any other."""
        letter = self.text[self.offset : self.offset + 1]
        if letter in CLASSES:
            self.offset += 1
            return CLASSES[letter]
        if letter in ("p", "P"):
            return self.property(letter == "P", flags)
        number = self.character()
        if number is None:
            return None
        one = ((number, number),)
        return both_cases(one) if "i" in flags else one

    def character(self) -> int | None:
        """Read an escape that stands for one character; None, and nothing is read, for any other."""
        for pattern, base in _NUMBERS:
            match = pattern.match(self.text, self.offset)
            if match is not None:
                self.offset = match.end()
                number = int(match[1], base)
                if number > EVERYTHING[-1][1]:
                    raise re.error(f"there is no character \\x{{{match[1]}}}")
                return number
        letter = self.text[self.offset : self.offset + 1]
        if letter == "c" and _CONTROL.match(self.text, self.offset + 1):
            self.offset += 2
            return ord(self.text[self.offset - 1]) ^ 64
        if letter in _CONTROLS or (letter and not (letter.isascii() and letter.isalnum())):
            self.offset += 1
            return ord(_CONTROLS.get(letter, letter))
        return None

    def property(self, other: bool, flags: frozenset[str]) -> CodePoints:
        r"""Read a property from the p of `\p{name}` on; `other`: its complement."""
        match = re.compile(r"[pP](?:\{([\w=]+)\}|([A-Z]))", re.ASCII).match(self.text, self.offset)
        if match is None:
            raise re.error("\\p is followed by the name of a class in braces")
        self.offset = match.end()
        one = find_class(match[1] or match[2], ignore_case="i" in flags)
        if one is None:
            if not self.native:
                raise re.error(f"\\p{{{match[1]}}} is not supported here")
            one = EVERYTHING
        return complement(one) if other else one

    def of_class(self, flags: frozenset[str]) -> CodePoints:
        """Behind an opening bracket, which is closed: `&&` takes what both its sides have."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise re.error("its classes are nested too deeply")
        negative = self.take("^")
        sides: list[CodePoints] = []
        # Members of a side are united once: one by one, a long class would take the square of its length.
        members: list[CodePoints] = []
        empty = True
        while empty or not self.next_is("]"):
            if self.offset >= len(self.text):
                raise re.error("a [ is not closed")
            if self.take("&&"):
                sides += _side(members)
                members = []
                if empty and self.next_is("]"):
                    raise re.error("a class has no characters")
            elif not ("x" in flags and self.comment()):
                members.append(self.member(flags))
                empty = False
        self.offset += 1
        self.depth -= 1
        sides += _side(members)
        one = reduce(intersection, sides or [EVERYTHING])
        return complement(one) if negative else one

    def member(self, flags: frozenset[str]) -> CodePoints:
        """Read a character, a range, or a nested class."""
        if self.take("["):
            return self.of_class(flags)
        if self.text.startswith("\\Q", self.offset):
            self.offset += 1
            one = characters(self.quotation())
            return both_cases(one) if "i" in flags else one
        low = self.end_of_range(flags)
        if isinstance(low, tuple):
            return low
        high = low
        following = self.text[self.offset + 1 : self.offset + 2]
        if self.text.startswith("-&&", self.offset):
            raise re.error("a range in a class has no end")
        if self.next_is("-") and following not in ("]", "[", ""):
            self.offset += 1
            upper = self.end_of_range(flags)
            if isinstance(upper, tuple) or upper < low:
                raise re.error("a range in a class runs backwards")
            high = upper
        one = ((low, high),)
        return both_cases(one) if "i" in flags else one

    def end_of_range(self, flags: frozenset[str]) -> int | CodePoints:
        """Read a character, or an escape that stands for a class."""
        if not self.take("\\"):
            self.offset += 1
            return ord(self.text[self.offset - 1])
        number = self.character()
        if number is not None:
            return number
        one = self.set_of_escape(flags)
        if one is None:
            raise re.error(f"\\{self.text[self.offset : self.offset + 1]} is not supported in a class")
        return one

    def next_is(self, text: str) -> bool:
        """Tell whether this text is next."""
        return self.text.startswith(text, self.offset)

    def take(self, text: str) -> bool:
        """Read this text if it is next; True if it was."""
        is_next = self.next_is(text)
        self.offset += len(text) * is_next
        return is_next


def _side(members: list[CodePoints]) -> list[CodePoints]:
    """Unite one side of an intersection; empty list if it has no characters."""
    side = union(NOTHING, NOTHING, *sorted(set(members)))
    return [side] if side else []
