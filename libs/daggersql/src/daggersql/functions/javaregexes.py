r"""Java's regular expressions, told to Python.

Spark runs Java's own; what runs in Python (a reference, `=~` in a JSON path, entries of a reference table)
reads the same pattern through here and matches the same. Java's words that Python lacks are spelt out:
quoting `\Q..\E`, `\h \v \R \z`, `\p{Alpha}` and the other classes, classes in classes and `&&`, flags in the
middle. As in Java without UNICODE_CHARACTER_CLASS, `\d \w \s` and `(?i)` mean ASCII.
(https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/regex/Pattern.html)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from daggersql.functions.codepoints import EVERYTHING, complement, written
from daggersql.functions.javaclasses import LINE_ENDS, TERMINATORS
from daggersql.functions.javaescapes import MAX_DEPTH, ClassReader

_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d{1,9}(?:,\d{0,9})?\})[+?]?")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_GROUP = re.compile(r"\(\?(?::|=|!|>|<=|<!|<([a-zA-Z][a-zA-Z0-9]*)>)")
_ENDS = written(TERMINATORS)
_BETWEEN = r"(?<!\r(?=\n))"
# The end of the text, or before the end of a line that is its last: $ and \Z.
_LAST = f"(?:{_BETWEEN}(?=(?:\\r\\n|{_ENDS})?\\Z))"
_ANCHORS = {
    ("^", False): r"(?:\A)",
    ("^", True): f"(?:(?:\\A|(?<={_ENDS}){_BETWEEN})(?!\\Z))",
    ("$", False): _LAST,
    ("$", True): f"(?:{_BETWEEN}(?={_ENDS}|\\Z))",
}
# Each as a group, so that it may be repeated.
_PLACES = {"A": r"(?:\A)", "z": r"(?:\Z)", "Z": _LAST, "b": r"(?u:\b)", "B": r"(?!(?u:\b))"}
_BREAK = f"\\r\\n|{written(LINE_ENDS)})"
_JAVAS_ONLY = "GX"


@lru_cache(maxsize=256)
def compiled(text: str, *, ignore_case: bool = False, native: bool = False) -> re.Pattern[str]:
    """The pattern that matches in Python what this one matches in Java.

    `native` is for a look at what Java itself will run: what only Java can match is let through there.
    Raises `re.error` that says what is wrong, `OverflowError` and `RecursionError` for one beyond measure.
    """
    reader = _Reader(text, native)
    body = reader.body(frozenset("i" if ignore_case else ""))
    if reader.offset < len(text):
        raise re.error("a ) closes nothing")
    return re.compile(f"(?i:{body})" if ignore_case else body, re.ASCII)


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Every match from left to right, as Java finds them: behind an empty one, one character further on."""
    start = 0
    while start <= len(text) and (match := pattern.search(text, start)) is not None:
        yield match
        start = match.end() + (match.end() == match.start())


@dataclass(slots=True)
class _Reader(ClassReader):
    groups: int = 0
    names: set[str] = field(default_factory=set)

    def body(self, flags: frozenset[str]) -> str:
        """Everything up to the end of a group. A flag set inside holds up to there, across `|` too."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise re.error("its groups are nested too deeply")
        written: list[str] = []
        scopes: list[str] = []
        while self.offset < len(self.text) and not self.next_is(")"):
            setting = _FLAGS.match(self.text, self.offset)
            if self.take("|"):
                written += [")" * len(scopes), "|", *scopes]
            elif setting is not None and setting[3] == ")":
                flags, scope = self.changed(flags, setting)
                scopes.append(scope)
                written.append(scope)
            elif not ("x" in flags and self.comment()):
                written += [self.atom(flags), self.quantifier(flags)]
        self.depth -= 1
        return "".join(written) + ")" * len(scopes)

    def changed(self, flags: frozenset[str], setting: re.Match[str]) -> tuple[frozenset[str], str]:
        """The flags from here on, and how Python opens a group with them."""
        self.offset = setting.end()
        on, off = frozenset(setting[1]), frozenset(setting[2] or "")
        if unknown := (on | off) - frozenset("imsxduU" if self.native else "imsx"):
            raise re.error(f"the flag {min(unknown)} is not supported")
        flags = (flags | on) - off
        return flags, "(?i:" if "i" in flags else "(?-i:"

    def quantifier(self, flags: frozenset[str]) -> str:
        """How often; empty for once."""
        while "x" in flags and self.comment():
            pass
        match = _QUANTIFIER.match(self.text, self.offset)
        self.offset = match.end() if match else self.offset
        return match[0] if match else ""

    def atom(self, flags: frozenset[str]) -> str:
        """What a quantifier may follow."""
        if self.next_is("("):
            return self.group(flags)
        if self.take("["):
            return written(self.of_class(flags))
        if self.take("\\"):
            return self.escape(flags)
        letter = self.text[self.offset]
        self.offset += 1
        if letter in "^$":
            return _ANCHORS[letter, "m" in flags]
        if letter == ".":
            return written(EVERYTHING if "s" in flags else complement(TERMINATORS))
        if letter in "*+?{":
            raise re.error(f"nothing stands before {letter}; the character itself is written \\{letter}")
        return re.escape(letter)

    def group(self, flags: frozenset[str]) -> str:
        """A group and its parentheses."""
        setting, known = _FLAGS.match(self.text, self.offset), _GROUP.match(self.text, self.offset)
        if known is not None:
            self.offset = known.end()
            opened = known[0]
            if known[1]:
                opened = f"(?P<{known[1]}>"
                self.groups += 1
                self.names.add(known[1])
            elif self.native:
                # Python looks behind for texts of one length only; here it is asked whether it is a pattern.
                opened = opened.replace("<", "")
        elif setting is not None:
            flags, opened = self.changed(flags, setting)
        elif self.text.startswith("(?", self.offset):
            raise re.error(f"Java does not know {self.text[self.offset : self.offset + 3]}")
        else:
            self.offset += 1
            self.groups += 1
            opened = "("
        body = self.body(flags)
        if not self.take(")"):
            raise re.error("a ( is not closed")
        return f"{opened}{body})"

    def escape(self, flags: frozenset[str]) -> str:
        """Behind a backslash."""
        if self.next_is("Q"):
            return re.escape(self.quoted())
        one = self.set_of_escape(flags)
        if one is not None:
            return written(one)
        letter = self.text[self.offset : self.offset + 1]
        self.offset += 1
        if letter in _PLACES and letter:
            return self.place(letter)
        if letter == "R":
            # Repeated, it does not take the two halves of \r\n for two ends of lines.
            return f"(?>{_BREAK}" if _QUANTIFIER.match(self.text, self.offset) else f"(?:{_BREAK}"
        if letter == "k":
            name = re.compile(r"<(\w+)>", re.ASCII).match(self.text, self.offset)
            if name is None or name[1] not in self.names:
                raise re.error("\\k names no group before it")
            self.offset = name.end()
            return f"(?P={name[1]})"
        if letter in "123456789" and letter:
            return self.reference(letter)
        if letter in _JAVAS_ONLY and letter and self.native:
            return "."
        raise re.error(f"\\{letter} is not supported" if letter else "nothing stands behind the last \\")

    def place(self, letter: str) -> str:
        """A place between characters."""
        if letter == "b" and self.take("{g}") and not self.native:
            raise re.error("\\b{g} is not supported")
        return _PLACES[letter]

    def reference(self, digits: str) -> str:
        """What a group matched: as many digits as make the number of a group."""
        while (more := self.text[self.offset : self.offset + 1]) in "0123456789" and more:
            if int(digits + more) > self.groups:
                break
            digits += more
            self.offset += 1
        return f"(?:\\{digits})"
