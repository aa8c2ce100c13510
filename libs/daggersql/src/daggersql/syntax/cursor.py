"""Moving over tokens, and remembering the place of every node: what all of the grammar stands on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from daggerspec.nearest import nearest
from daggersql.findings import QueryError, Report, Rewrite, Span, Suggestion, all_near
from daggersql.limits import MAX_DEPTH, MAX_LIST
from daggersql.syntax import tree
from daggersql.syntax.lexer import NO_TOKEN, Token, TokenKind

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
N = TypeVar("N", bound=tree.Node)
T = TypeVar("T")

CLAUSES = frozenset(
    [
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
        "FETCH",
        "OFFSET",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "MINUS",
        "JOIN",
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "CROSS",
        "NATURAL",
        "ON",
        "USING",
        "WITH",
        "WINDOW",
        "QUALIFY",
        "LATERAL",
        "DISTRIBUTE",
        "CLUSTER",
        "SORT",
        "TABLESAMPLE",
        "PIVOT",
        "UNPIVOT",
        "MATCH_RECOGNIZE",
    ]
)
"""Words that begin a clause: never an alias unless quoted."""
_ORDER = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")
"""Words of clauses, in the order in which a query has them."""
RESERVED = CLAUSES - {"LEFT", "RIGHT"} | frozenset(
    [
        "AS",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "LIKE",
        "IS",
        "BY",
        "THEN",
        "ELSE",
        "END",
        "WHEN",
        "ESCAPE",
        "SET",
        "DISTINCT",
        "ALL",
    ]
)
"""Words that cannot begin an expression unless quoted."""
KEYWORDS = CLAUSES | RESERVED | {"CASE", "CAST", "NULL", "TRUE", "FALSE", "INTERVAL"}


def span_of(node: tree.Node) -> Span:
    """Return the place of a node in the text; (0, 0) without one."""
    return node.meta.get("start", 0), node.meta.get("end", 0)


def quote_path(path: str) -> str:
    """Write a dotted path for a query; the first word is quoted where it would be a keyword."""
    first, dot, rest = path.partition(".")
    plain = _PLAIN.fullmatch(first) and first.upper() not in KEYWORDS
    return (first if plain else f"`{first}`") + dot + rest


def behind(node: tree.Node, words: str) -> Rewrite:
    """Rewrite the text with more words behind a node."""
    end = span_of(node)[1]
    return Rewrite((end, end), f" {words}", words)


def more_names(names: Sequence[tree.Identifier], columns: Sequence[str], words: str) -> Suggestion:
    """Suggest names for the columns that a list of names leaves out; only words where it has too many."""
    if len(names) > len(columns):
        return words
    end = span_of(names[-1])[1]
    return Rewrite((end, end), "".join(f", {quote_path(name)}" for name in columns[len(names) :]), words)


def _ends_value(token: Token) -> bool:
    """Tell whether an element of a list may end with a token."""
    if token.kind is TokenKind.WORD:
        return token.text.upper() not in KEYWORDS - {"END", "NULL", "TRUE", "FALSE"}
    if token.kind is TokenKind.SYMBOL:
        return token.text in (")", "]", "*")
    return bool(token)


def _begins_value(token: Token) -> bool:
    """Tell whether an element of a list may begin with a token."""
    if token.kind is TokenKind.WORD:
        return token.text.upper() not in RESERVED
    return bool(token) and token.kind is not TokenKind.SYMBOL


def _named(clause: str) -> str:
    """Return what a clause is called that begins with a word."""
    return f"{clause} BY" if clause in ("GROUP", "ORDER") else clause


def _quote(token: Token) -> str:
    return f"{token.text[:40]!r}"


SUBQUERY_DEPTH = 5
"""A sub-query counts as so many levels of nesting: it costs that much more to follow."""


class Cursor:
    """A place in the tokens of a text."""

    def __init__(self, tokens: Sequence[Token], sql: str, report: Report) -> None:
        self.sql = sql
        self.report = report
        self._tokens = tokens
        self._index = -1
        self._curr = self._next = self._prev = NO_TOKEN
        self._depth = 0
        self._advance()

    # --- moving ----------------------------------------------------------------------------------------

    def _advance(self, times: int = 1) -> None:
        self._index = index = self._index + times
        tokens, size = self._tokens, len(self._tokens)
        self._curr = tokens[index] if index < size else NO_TOKEN
        self._next = tokens[index + 1] if index + 1 < size else NO_TOKEN
        self._prev = tokens[index - 1] if index > 0 else NO_TOKEN

    def _rewind(self) -> None:
        """Back to the first token."""
        self._advance(-self._index)

    # --- looking ---------------------------------------------------------------------------------------

    def _is_word(self, *words: str) -> bool:
        token = self._curr
        return token.kind is TokenKind.WORD and token.text.upper() in words

    def _is_symbol(self, *symbols: str) -> bool:
        token = self._curr
        return token.kind is TokenKind.SYMBOL and token.text in symbols

    def _next_is(self, text: str) -> bool:
        token = self._next
        return token.kind in (TokenKind.SYMBOL, TokenKind.WORD) and token.text.upper() == text

    # --- taking ----------------------------------------------------------------------------------------

    def _take(self) -> Token:
        token = self._curr
        if not token:
            self._refuse_token()
        self._advance()
        return token

    def _take_word(self, *words: str) -> bool:
        if self._is_word(*words):
            self._advance()
            return True
        return False

    def _take_symbol(self, *symbols: str) -> bool:
        if self._is_symbol(*symbols):
            self._advance()
            return True
        return False

    def _expect_word(self, word: str) -> None:
        if not self._take_word(word):
            self._refuse_token(f"{word} is missing here", word)

    def _expect_symbol(self, symbol: str) -> None:
        if not self._take_symbol(symbol):
            self._refuse_token(f"{symbol!r} is missing here", symbol)

    def _name(self, role: str) -> tree.Identifier:
        """Parse a name, quoted or not. `role`: words for the message. Raises: QueryError at another token."""
        token = self._curr
        quoted = token.kind is TokenKind.QUOTED
        if not quoted and (token.kind is not TokenKind.WORD or token.text.upper() in RESERVED):
            self._refuse_token(f"{role} is missing here")
        self._advance()
        return self._at(tree.Identifier(this=token.text, quoted=quoted), token.start)

    def _table_name(self, role: str) -> tree.Identifier:
        """Parse the name that a query gives a table; object to an empty one."""
        name = self._name(role)
        if not name.name.strip():
            self.report.object_to("SYNTAX_ERROR", span_of(name), f"{role} is not empty.")
        return name

    def _named_column(self, name: tree.Identifier) -> tree.Identifier:
        """Check the name that a query gives a column; object to an empty one."""
        if not name.name.strip():
            self.report.object_to("INVALID_COLUMN_NAME", span_of(name), "A column's name is not empty.")
        return name

    # --- building --------------------------------------------------------------------------------------

    @property
    def _start(self) -> int:
        """Offset of the next token; the length of the text at its end."""
        return self._curr.start if self._curr else len(self.sql)

    def _at(self, node: N, start: int) -> N:
        """Set the node's place, from `start` to the end of the token that was last consumed; return it."""
        node.meta["start"], node.meta["end"] = start, max(start, self._prev.end + 1)
        return node

    def _commas(self, parse: Callable[[], T], *, most: int = MAX_LIST) -> list[T]:
        """Parse one or more elements, separated by commas. Raises: QueryError at more than `most`."""
        parsed = [parse()]
        while self._take_symbol(","):
            if len(parsed) == most:
                raise QueryError(
                    "QUERY_TOO_LARGE", self._here(), f"This list has more than {most:,} elements."
                )
            parsed.append(parse())
        return parsed

    def _deeper(self, parse: Callable[[], T]) -> T:
        """Call `parse` one sub-query deeper. Raises: QueryError when that is too deep."""
        self._check_depth(self._depth + SUBQUERY_DEPTH)
        self._depth += SUBQUERY_DEPTH
        try:
            return parse()
        finally:
            self._depth -= SUBQUERY_DEPTH

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise QueryError(
                "QUERY_TOO_DEEP", self._here(), f"The query is nested more than {MAX_DEPTH} levels deep here."
            )

    # --- refusing --------------------------------------------------------------------------------------

    def _here(self) -> Span:
        return (self._curr.start, self._curr.end + 1) if self._curr else (len(self.sql), len(self.sql))

    def _refuse_token(self, problem: str = "", suggestion: str | None = None) -> NoReturn:
        """Refuse the next token. A misspelt keyword just before it is suggested.

        Raises: QueryError SYNTAX_ERROR, always.
        """
        if self._is_symbol("=") and self._prev.text == "=":
            span = (self._prev.start, self._curr.end + 1)
            equal = "Values are compared by a single ="
            raise QueryError("SYNTAX_ERROR", span, equal, "=", repairs=[Rewrite(span, "=")])
        repairs = [*self._repairs(suggestion), *self._repair_list(), *self._repair_reserved_word()]
        if not suggestion and self._prev.kind is TokenKind.WORD:
            near = nearest(self._prev.text, KEYWORDS, cutoff=0.75)
            suggestion = near if near != self._prev.text.upper() else None
        if not problem:
            problem = self._describe_order() or (
                f"{self._curr.text!r} is not expected here" if self._curr else "The query ends too early"
            )
        elif self._curr:
            problem += f", before {self._curr.text[:40]!r}"
        raise QueryError("SYNTAX_ERROR", self._here(), problem, suggestion, repairs=repairs)

    def _repairs(self, missing: str | None) -> list[Rewrite]:
        """List rewrites to try: near keywords for a word at or before this place, and the missing symbol."""
        repairs = []
        for token in (self._curr, self._prev):
            if token.kind is TokenKind.WORD and token.text.upper() not in KEYWORDS:
                span = (token.start, token.end + 1)
                words = KEYWORDS if missing is None or token is self._prev else (missing, *KEYWORDS)
                repairs += [Rewrite(span, near) for near in all_near(token.text.upper(), words)]
        if missing is not None:
            end = self._prev.end + 1 if self._prev else 0
            repairs.append(Rewrite((end, end), f" {missing}" if missing.isalpha() else missing, missing))
        return repairs

    def _repair_list(self) -> list[Rewrite]:
        """Put a comma between what stands here and what is before it, or one word earlier: `a count(1)`."""
        repairs, word = [], self._last_opening()
        if word not in ("SELECT", "BY", "("):
            return []
        for before, token in ((self._prev, self._curr), (self._before_previous(), self._prev)):
            if _ends_value(before) and _begins_value(token):
                end, problem = before.end + 1, f"A comma is missing before {_quote(token)}."
                repairs.append(Rewrite((end, end), ",", "a comma", problem, alone=word == "("))
        return repairs

    def _repair_reserved_word(self) -> list[Rewrite]:
        """Put backticks around a word that the language reserves: a column may be called so."""
        token = self._curr
        if token.kind is not TokenKind.WORD or token.text.upper() not in KEYWORDS:
            return []
        problem = f"{token.text} is a word of the language: as a name it stands in backticks."
        # A clause's word in backticks is nearly always a text that can be read, and seldom what is meant.
        clause = token.text.upper() in CLAUSES
        return [Rewrite((token.start, token.end + 1), f"`{token.text}`", problem=problem, alone=clause)]

    def _last_opening(self) -> str:
        """Find what the place is in: the word of a clause, BY, or "(" for an open bracket; else nothing."""
        closed = 0
        for token in reversed(self._tokens[: max(self._index, 0)]):
            word = token.text.upper()
            if token.text in (")", "]"):
                closed += 1
            elif token.text in ("(", "["):
                if not closed:
                    return "("
                closed -= 1
            elif not closed and token.kind is TokenKind.WORD and (word in CLAUSES or word == "BY"):
                return word
        return ""

    def _describe_order(self) -> str:
        """Say which clause the one here stands before, where it comes too late; else nothing."""
        here, last = self._curr.text.upper(), self._last_opening()
        last = self._last_clause if last == "BY" else last
        is_clause = self._curr.kind is TokenKind.WORD and here in _ORDER and last in _ORDER
        if not is_clause or _ORDER.index(here) >= _ORDER.index(last):
            return ""
        return f"{_named(here)} stands before {_named(last)}"

    @property
    def _last_clause(self) -> str:
        """Return the word before the BY that the place is in: GROUP, ORDER or PARTITION."""
        before = list(self._tokens[: max(self._index, 0)])
        while before and before[-1].text.upper() != "BY":
            before.pop()
        return before[-2].text.upper() if len(before) > 1 else ""

    def _before_previous(self) -> Token:
        return self._tokens[self._index - 2] if self._index > 1 else NO_TOKEN

    def _refuse(self, code: str, message: str, suggestion: str | None = None) -> NoReturn:
        """Raises: QueryError, at the next token."""
        raise QueryError(code, self._here(), message, suggestion)
