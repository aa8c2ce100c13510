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

from daggersql.functions import regexcost
from daggersql.functions.codepoints import EVERYTHING, CodePoints, both_cases, complement, to_class
from daggersql.functions.javaclasses import LINE_ENDS, TERMINATORS
from daggersql.functions.javaescapes import MAX_DEPTH, ClassReader
from daggersql.functions.regexcost import Shape

_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d{1,9})(?:(,)(\d{0,9}))?\})([+?]?)", re.ASCII)
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_GROUP = re.compile(r"\(\?(?::|=|!|>|<=|<!|<([a-zA-Z][a-zA-Z0-9]*)>)")
_ENDS = to_class(TERMINATORS)
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
_BREAK = f"\\r\\n|{to_class(LINE_ENDS)})"
_JAVAS_ONLY = "GX"
_TIMES: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
# Flags of Java alone with which its classes, letters or dots have more characters.
_WIDER = frozenset("udU")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Pattern that was read."""

    python: str
    """Equivalent pattern of Python; an approximation where only Java can match."""
    shape: Shape
    groups: int
    names: frozenset[str]


@lru_cache(maxsize=256)
def read(text: str, *, ignore_case: bool = False, native: bool = False) -> Pattern:
    """Read a pattern as Java does, in time that grows with its length.

    `native`: Java itself will run it, so that forms which only Java has are accepted. Raises: `re.error` with
    the problem.
    """
    reader = _RegexReader(text, native)
    body = reader.body(frozenset("i" if ignore_case else ""))
    if reader.offset < len(text):
        raise re.error("a ) closes nothing")
    python = f"(?i:{body.python})" if ignore_case else body.python
    return Pattern(python, body.shape, reader.groups, frozenset(reader.names))


@lru_cache(maxsize=256)
def compile_pattern(text: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Compile a pattern that matches in Python as this one does in Java.

    Raises: `re.error` with the problem; `OverflowError` and `RecursionError` for an oversized one.
    """
    return re.compile(read(text, ignore_case=ignore_case).python, re.ASCII)


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield matches from left to right as Java finds them: after an empty one, one character further on."""
    start = 0
    while start <= len(text) and (match := pattern.search(text, start)) is not None:
        yield match
        start = match.end() + (match.end() == match.start())


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a pattern: as Python has it, and what it may cost."""

    python: str
    shape: Shape


@dataclass(slots=True)
class _RegexReader(ClassReader):
    groups: int = 0
    names: set[str] = field(default_factory=set)

    def body(self, flags: frozenset[str]) -> _Part:
        """Read up to the end of a group. A flag that is set inside is valid up to there, also across `|`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise re.error("its groups are nested too deeply")
        written: list[str] = []
        scopes: list[str] = []
        branches: list[list[Shape]] = [[]]
        while self.offset < len(self.text) and not self.next_is(")"):
            setting = _FLAGS.match(self.text, self.offset)
            if self.take("|"):
                written += [")" * len(scopes), "|", *scopes]
                branches.append([])
            elif setting is not None and setting[3] == ")":
                flags, scope = self.change_flags(flags, setting)
                scopes.append(scope)
                written.append(scope)
            elif not ("x" in flags and self.comment()):
                for part in self.parts(flags):
                    written.append(part.python)
                    branches[-1].append(part.shape)
        self.depth -= 1
        shape = regexcost.choice([regexcost.sequence(branch or (regexcost.PLACE,)) for branch in branches])
        return _Part("".join(written) + ")" * len(scopes), shape)

    def change_flags(self, flags: frozenset[str], setting: re.Match[str]) -> tuple[frozenset[str], str]:
        """Read a change of flags; return the new ones, and the text that opens their group in Python."""
        self.offset = setting.end()
        on, off = frozenset(setting[1]), frozenset(setting[2] or "")
        if unknown := (on | off) - frozenset("imsxduU" if self.native else "imsx"):
            raise re.error(f"the flag {min(unknown)} is not supported")
        flags = (flags | on) - off
        return flags, "(?i:" if "i" in flags else "(?-i:"

    def parts(self, flags: frozenset[str]) -> list[_Part]:
        """Read the next parts with their quantifier; of a quoted text it repeats only the last character."""
        if not self.next_is("\\Q"):
            return [self.quantify(self.atom(flags), flags)]
        self.offset += 1
        letters = [self.plain(letter, flags) for letter in self.quotation()]
        return [*letters[:-1], *(self.quantify(letter, flags) for letter in letters[-1:])]

    def quantify(self, atom: _Part, flags: frozenset[str]) -> _Part:
        """Read the quantifier of a part, if there is one, and apply it."""
        while "x" in flags and self.comment():
            pass
        match = _QUANTIFIER.match(self.text, self.offset)
        if match is None:
            return atom
        self.offset = match.end()
        least, most = _TIMES.get(match[0][0]) or _repetitions(match)
        shape = regexcost.repeat(atom.shape, least, most, possessive=match[4] == "+")
        return _Part(atom.python + match[0], shape)

    def atom(self, flags: frozenset[str]) -> _Part:
        """Read a part that may have a quantifier."""
        if self.next_is("("):
            return self.group(flags)
        if self.take("["):
            return self.one(self.of_class(flags), flags)
        if self.take("\\"):
            return self.escape(flags)
        letter = self.text[self.offset]
        self.offset += 1
        if letter in "^$":
            return _Part(_ANCHORS[letter, "m" in flags], regexcost.PLACE)
        if letter == ".":
            return self.one(EVERYTHING if "s" in flags else complement(TERMINATORS), flags)
        if letter in "*+?{":
            raise re.error(f"nothing stands before {letter}; the character itself is written \\{letter}")
        return self.plain(letter, flags)

    def one(self, characters: CodePoints, flags: frozenset[str]) -> _Part:
        """Build the part of one character of a set; flags that only Java has may match more."""
        return _Part(to_class(characters), regexcost.one(EVERYTHING if flags & _WIDER else characters))

    def plain(self, letter: str, flags: frozenset[str]) -> _Part:
        """Build the part of a plain character."""
        itself: CodePoints = ((ord(letter), ord(letter)),)
        if "i" in flags:
            itself = both_cases(itself)
        return _Part(re.escape(letter), regexcost.one(EVERYTHING if flags & _WIDER else itself))

    def group(self, flags: frozenset[str]) -> _Part:
        """Read a group with its parentheses."""
        setting, opening = _FLAGS.match(self.text, self.offset), _GROUP.match(self.text, self.offset)
        kind = ""
        if opening is not None:
            self.offset = opening.end()
            opened, kind = opening[0], opening[0][2:]
            if opening[1]:
                opened = f"(?P<{opening[1]}>"
                self.groups += 1
                if opening[1] in self.names:
                    raise re.error(f"two groups are named {opening[1]}")
                self.names.add(opening[1])
        elif setting is not None:
            flags, opened = self.change_flags(flags, setting)
        elif self.text.startswith("(?", self.offset):
            raise re.error(f"Java does not know {self.text[self.offset : self.offset + 3]}")
        else:
            self.offset += 1
            self.groups += 1
            opened = "("
        body = self.body(flags)
        if not self.take(")"):
            raise re.error("a ( is not closed")
        return _Part(f"{opened}{body.python})", _shape_of_group(kind, body.shape))

    def escape(self, flags: frozenset[str]) -> _Part:
        """Behind a backslash."""
        one = self.set_of_escape(flags)
        if one is not None:
            return self.one(one, flags)
        letter = self.text[self.offset : self.offset + 1]
        self.offset += 1
        if letter in _PLACES and letter:
            return _Part(self.span(letter), regexcost.PLACE)
        if letter == "R":
            # Repeated, it does not take the two halves of \r\n for two ends of lines.
            opened = "(?>" if _QUANTIFIER.match(self.text, self.offset) else "(?:"
            return _Part(opened + _BREAK, regexcost.one(LINE_ENDS, 2))
        if letter == "k":
            name = re.compile(r"<(\w+)>", re.ASCII).match(self.text, self.offset)
            if name is None or name[1] not in self.names:
                raise re.error("\\k names no group before it")
            self.offset = name.end()
            return _Part(f"(?P={name[1]})", regexcost.REFERENCE)
        if letter in "123456789" and letter:
            return _Part(self.reference(letter), regexcost.REFERENCE)
        if letter in _JAVAS_ONLY and letter and self.native:
            return _Part(".", regexcost.PLACE if letter == "G" else regexcost.one(EVERYTHING, None))
        raise re.error(f"\\{letter} is not supported" if letter else "nothing stands behind the last \\")

    def span(self, letter: str) -> str:
        """Write a position between characters."""
        if letter == "b" and self.take("{g}") and not self.native:
            raise re.error("\\b{g} is not supported")
        return _PLACES[letter]

    def reference(self, digits: str) -> str:
        """Read a back reference: its number has as many digits as there are groups for."""
        while (more := self.text[self.offset : self.offset + 1]) in "0123456789" and more:
            if int(digits + more) > self.groups:
                break
            digits += more
            self.offset += 1
        if int(digits) > self.groups:
            raise re.error(f"\\{digits} is no group before it")
        return f"(?:\\{digits})"


def _repetitions(quantifier: re.Match[str]) -> tuple[int, int | None]:
    """Return the minimum and maximum of repetitions; None: unbounded."""
    least = int(quantifier[1])
    if quantifier[2] is None:
        return least, least
    most = int(quantifier[3]) if quantifier[3] else None
    if most is not None and most < least:
        raise re.error(f"{quantifier[0]} counts backwards")
    return least, most


def _shape_of_group(kind: str, body: Shape) -> Shape:
    """Build the shape of a group. `kind`: text behind its (?; empty for a numbered group."""
    if kind == ">":
        return regexcost.apart(body)
    if kind in ("<=", "<!") and body.longest is None:
        raise re.error("what is looked for behind has no longest length")
    return regexcost.look(body, behind="<" in kind) if kind in ("=", "!", "<=", "<!") else body
