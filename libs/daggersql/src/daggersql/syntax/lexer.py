"""From text to tokens: one linear scan that lets nothing unusual through.

A word is a WORD whether it is a keyword or a name: the grammar decides by position, so a field may be called
`long` or `method`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from daggerspec.query import quote_name
from daggersql.findings import QueryError, Report, Rewrite, Span, instead, quote_constant
from daggersql.limits import MAX_IDENTIFIER, MAX_TOKENS


class TokenKind(Enum):
    """Kind of a token."""

    WORD = auto()
    QUOTED = auto()
    """A name in backticks."""
    NUMBER = auto()
    STRING = auto()
    HEX = auto()
    UNICODE = auto()
    """A text in which characters may be written by their numbers; UESCAPE may stand behind it."""
    SYMBOL = auto()
    """An operator or a punctuation mark; the grammar goes by their text."""
    END = auto()


@dataclass(slots=True)
class Token:
    """A word or a sign, and where it stands; the offset of its last character is inclusive."""

    kind: TokenKind
    text: str
    start: int = 0
    end: int = 0

    def __bool__(self) -> bool:
        return self.kind is not TokenKind.END


NO_TOKEN = Token(TokenKind.END, "")
"""Behind the last one, and before the first."""

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n\f]+)
    | (?P<comment>--[^\r\n]*|/\*(?!\+).*?\*/)
    | (?P<hex>[xX]'(?:[0-9a-fA-F]{2})*')
    | (?P<unicode>[uU]&'(?:[^']|'')*')
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_]))
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<double>"(?:[^"]|"")+")
    | (?P<symbol>\|\||::|<>|<=|>=|!=|=>|/(?!\*)|[()\[\],.;=<>+\-*%])
    """,
    re.VERBOSE | re.DOTALL,
)
# Control characters and those that make a text look different from what it says, even inside a literal.
_DISGUISE = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_TYPES: dict[str, TokenKind] = {
    "hex": TokenKind.HEX,
    "unicode": TokenKind.UNICODE,
    "word": TokenKind.WORD,
    "number": TokenKind.NUMBER,
    "string": TokenKind.STRING,
    "quoted": TokenKind.QUOTED,
    "symbol": TokenKind.SYMBOL,
}
_TEXTS: dict[str, Callable[[str], str]] = {
    "hex": lambda raw: raw[2:-1],
    "unicode": lambda raw: raw[3:-1].replace("''", "'"),
    "string": lambda raw: raw[1:-1].replace("''", "'"),
    "quoted": lambda raw: raw[1:-1].replace("``", "`"),
}
_NO_NAME, _BEHIND_AS = re.compile(r'"\s*"'), re.compile(r"\bAS\s+\Z", re.IGNORECASE)
_BEGUN_BY_DIGIT = re.compile(r"[0-9]\w*")
_BEFORE_NAMES = {"AS", "FROM", "JOIN", "TABLE", "."}
_BEFORE_TEXT = {"=", "<>", "!=", "LIKE", "ILIKE", "||"}
_BY_NUMBER = r"{mark}(?:({mark})|\+([0-9a-fA-F]{{6}})|([0-9a-fA-F]{{4}}))?"
_UNCLOSED = {"'": "text", "`": "quoted name", "/": "comment"}
_TEMPLATES = ("${", "{{", "{%", "|>", ":", "?", "@", "{")


def tokenize(sql: str, report: Report) -> list[Token]:
    """Split the first statement into tokens; a single semicolon at its end is dropped.

    Text behind the semicolon is reported as MULTIPLE_STATEMENTS, as the statement before it may have more
    errors. Raises: QueryError with INVALID_CHARACTER, SYNTAX_ERROR, FORBIDDEN_SYNTAX, IDENTIFIER_TOO_LONG
    or QUERY_TOO_LARGE, at the place.
    """
    if disguised := _DISGUISE.search(sql):
        raise _invalid_character(disguised.group(), disguised.span())
    tokens: list[Token] = []
    offset = 0
    while offset < len(sql):
        match = _TOKEN.match(sql, offset)
        if match is None:
            raise _unreadable(sql, offset)
        kind, offset = match.lastgroup or "", match.end()
        if kind in ("space", "comment"):
            continue
        token = _double(match, tokens, report) if kind == "double" else _token(kind, match)
        if token.text == ";" and kind == "symbol":
            _nothing_after(sql, token, report)
            break
        tokens.append(token)
        if len(tokens) > MAX_TOKENS:
            raise QueryError(
                "QUERY_TOO_LARGE", (0, 0), f"The query has more than {MAX_TOKENS} words and signs."
            )
    return tokens


def unicode_text(text: str, mark: str, span: Span) -> str:
    r"""Decode the text of U&'d\0061ta': `mark` precedes the four digits of a UTF-16 unit, or + and the six of
    a character.

    Raises: QueryError with SYNTAX_ERROR or INVALID_CHARACTER.
    """

    def character(match: re.Match[str]) -> str:
        number = match[2] or match[3]
        if not (match[1] or number) or int(number or "0", 16) > sys.maxunicode:
            problem = f"Behind {mark} stand four hexadecimal digits, + and six of them, or {mark} once more."
            raise QueryError("SYNTAX_ERROR", span, problem)
        return mark if match[1] else chr(int(number, 16))

    units = re.sub(_BY_NUMBER.format(mark=re.escape(mark)), character, text)
    # Two units of one character become it; one alone is none, which is said.
    read = units.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if disguised := _DISGUISE.search(read):
        raise _invalid_character(disguised.group(), span)
    return read


def _token(kind: str, match: re.Match[str]) -> Token:
    raw, (start, end) = match.group(), match.span()
    text = _TEXTS[kind](raw) if kind in _TEXTS else raw
    if kind in ("word", "quoted") and len(text) > MAX_IDENTIFIER:
        raise QueryError(
            "IDENTIFIER_TOO_LONG", (start, end), f"This name is longer than {MAX_IDENTIFIER} characters."
        )
    return Token(_TYPES[kind], text, start=start, end=end - 1)


def _double(match: re.Match[str], before: list[Token], report: Report) -> Token:
    """Convert double quotes, which the dialect lacks, to a name where one is expected, else to a text."""
    text, (start, end) = match.group()[1:-1].replace('""', '"'), match.span()
    previous = before[-1] if before else NO_TOKEN
    is_name = previous.text.upper() in _BEFORE_NAMES or (
        previous.text not in _BEFORE_TEXT
        and any(text in message.fields_by_name for message in report.environment.streams)
    )
    written = quote_name(text) if is_name else quote_constant(text)
    report.error(
        "SYNTAX_ERROR",
        (start, end),
        "Names are quoted with backticks, text with single quotes.",
        instead((start, end), written),
    )
    return Token(TokenKind.QUOTED if is_name else TokenKind.STRING, text, start=start, end=end - 1)


def _nothing_after(sql: str, semicolon: Token, report: Report) -> None:
    # Not even a comment: an injected quote is often followed by one.
    if sql[semicolon.end + 1 :].strip(" \t\r\n\f"):
        report.error(
            "MULTIPLE_STATEMENTS",
            (semicolon.start, semicolon.start + 1),
            "A dagger runs one SELECT: remove everything from this semicolon on.",
            Rewrite((semicolon.start, len(sql)), "", "one SELECT"),
        )


def _unreadable(sql: str, offset: int) -> QueryError:
    """Build the error of a place where no token begins."""
    char, span = sql[offset], (offset, offset + 1)
    rest = sql[offset : offset + 3]
    if rest.startswith("&&"):
        span = (offset, offset + 2)
        problem = "Conditions are joined by AND and OR"
        return QueryError("SYNTAX_ERROR", span, problem, "AND", repairs=[Rewrite(span, "AND")])
    if rest == "/*+":
        return QueryError(
            "FORBIDDEN_SYNTAX", (offset, offset + 3), "Optimiser hints are not allowed: remove the comment."
        )
    if char in _UNCLOSED:
        close = _closing(char)
        ends = sorted({sql.find("\n", offset) % (len(sql) + 1), len(sql)})
        repairs = [Rewrite((end, end), close) for end in ends]
        return QueryError(
            "SYNTAX_ERROR", span, f"This {_UNCLOSED[char]} is not closed.", close, repairs=repairs
        )
    if rest.startswith(_TEMPLATES):
        return QueryError(
            "FORBIDDEN_SYNTAX",
            span,
            f"{char!r} is not part of the dialect: templates, parameters and pipes are not filled in here.",
        )
    if _NO_NAME.match(sql, offset) and _BEHIND_AS.search(sql, 0, offset):
        return QueryError("INVALID_COLUMN_NAME", (offset, offset + 2), "A column's name is not empty.")
    if char == '"':
        return QueryError(
            "SYNTAX_ERROR", span, "Names are quoted with backticks, text with single quotes.", "`"
        )
    if number := _BEGUN_BY_DIGIT.match(sql, offset):
        name, span = number.group(), number.span()
        repairs = [Rewrite(span, f"`{name}`"), Rewrite(span, f"value_{name}")]
        problem = "A name cannot begin with a digit: quote it with backticks."
        return QueryError("SYNTAX_ERROR", span, problem, "`", repairs=repairs)
    if not char.isascii() or not char.isprintable():
        return _invalid_character(char, span)
    return QueryError("SYNTAX_ERROR", span, f"{char!r} means nothing here.")


def _closing(char: str) -> str:
    return "*/" if char == "/" else char


def _invalid_character(char: str, span: Span) -> QueryError:
    return QueryError(
        "INVALID_CHARACTER",
        span,
        f"The character U+{ord(char):04X} is not allowed here: type it anew with a plain keyboard.",
    )
