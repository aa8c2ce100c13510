"""Operands: constants, columns, calls, CASE and brackets, with the fields and elements behind them."""

from __future__ import annotations

from daggersql.findings import QueryError
from daggersql.limits import MAX_DEPTH
from daggersql.syntax import tree, units
from daggersql.syntax.cursor import KEYWORDS, RESERVED, Cursor, span_of
from daggersql.syntax.lexer import TokenKind, unicode_text

# Words that go on behind an INTERVAL without a unit.
_BEHIND_INTERVAL = KEYWORDS | {"ASC", "DESC", "PRECEDING", "FOLLOWING"}
_FORBIDDEN_CALLS = {"IDENTIFIER", "TRANSFORM", "MAP", "REDUCE"}


class OperandParser(Cursor):
    """The grammar of operands; expressions, calls and queries in them are what its subclasses know."""

    def _expression(self) -> tree.Node:
        raise NotImplementedError

    def _query(self) -> tree.Node:
        raise NotImplementedError

    def _accesses(self, node: tree.Node, start: int) -> tree.Node:
        """Fields and elements behind an operand: `.name`, `[index]`."""
        for _ in range(MAX_DEPTH):
            if self._is_symbol(".") and self._next_is("*"):
                self._advance(2)
                node = self._at(tree.Dot(this=node, expression=tree.Star()), start)
            elif self._take_symbol("."):
                node = self._at(tree.Dot(this=node, expression=self._field_name()), start)
            elif self._take_symbol("::"):
                node = self._at(tree.Cast(this=node, to=self._data_type()), start)
            elif self._take_symbol("["):
                index = self._expression()
                self._expect_symbol("]")
                node = self._at(tree.Bracket(this=node, expressions=[index]), start)
            else:
                return node
        raise QueryError(
            "QUERY_TOO_DEEP", self._here(), f"More than {MAX_DEPTH} fields or elements in a chain."
        )

    def _data_type(self) -> tree.DataType:
        raise NotImplementedError

    def _field_name(self) -> tree.Identifier:
        """Behind a dot every word is a name."""
        token = self._curr
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            self._refuse_token("A field's name is missing here")
        self._advance()
        quoted = token.kind is TokenKind.QUOTED
        return self._at(tree.Identifier(this=token.text, quoted=quoted), token.start)

    def _operand(self, start: int) -> tree.Node:
        token = self._curr
        match token.kind:
            case TokenKind.NUMBER:
                self._advance()
                return self._at(tree.Literal.number(token.text), start)
            case TokenKind.STRING:
                self._advance()
                return self._at(tree.Literal.string(token.text), start)
            case TokenKind.UNICODE:
                return self._unicode(start)
            case TokenKind.HEX:
                self._advance()
                return self._at(tree.HexString(this=token.text), start)
            case TokenKind.WORD:
                return self._word_operand(token.text.upper(), start)
            case TokenKind.QUOTED:
                return self._call(start) if self._next_is("(") else self._column(start)
        if self._take_symbol("("):
            return self._brackets(start)
        if self._take_symbol("*"):
            return self._at(tree.Star(), start)
        return self._refuse_token()

    def _unicode(self, start: int) -> tree.Node:
        """U&'…', with UESCAPE 'c' behind it or a backslash before each number."""
        text, mark = self._take().text, "\\"
        if self._take_word("UESCAPE"):
            mark = self._curr.text
            if (
                self._curr.kind is not TokenKind.STRING
                or len(mark) != 1
                or mark in "+'\" "
                or mark.isalnum()
                or not mark.isprintable()
            ):
                self._refuse_token(
                    "UESCAPE takes one character in quotes that is no letter, digit, + or quote"
                )
            self._advance()
        node = tree.Literal.string(text)
        self._at(node, start)
        node.args["this"] = unicode_text(text, mark, span_of(node))
        return node

    def _column(self, start: int) -> tree.Node:
        return self._at(tree.Column(this=self._field_name()), start)

    def _brackets(self, start: int) -> tree.Node:
        if self._is_word("SELECT", "WITH"):
            return self._subquery(start)
        inner = self._expression()
        if self._is_symbol(","):
            self._refuse("UNSUPPORTED_OPERATION", "A row of several values is not supported here.")
        self._expect_symbol(")")
        return self._at(inner, start)

    def _subquery(self, start: int) -> tree.Node:
        """Parse a query in brackets, behind the opening one."""
        query = self._deeper(self._query)
        self._expect_symbol(")")
        return self._at(tree.Subquery(this=query), start)

    def _word_operand(self, word: str, start: int) -> tree.Node:
        followed_by_text = self._next.kind is TokenKind.STRING
        if word in ("TRUE", "FALSE"):
            self._advance()
            return self._at(tree.Boolean(this=word == "TRUE"), start)
        if word == "NULL":
            self._advance()
            return self._at(tree.Null(), start)
        if word == "INTERVAL" and not self._next_is("("):
            return self._interval(start)
        if word in ("DATE", "TIME", "TIMESTAMP") and followed_by_text:
            self._advance()
            text = tree.Literal.string(self._take().text)
            return self._at(
                tree.Cast(this=text, to=tree.DataType(this=tree.TypeName[word]), default=True), start
            )
        if word == "CASE":
            return self._case(start)
        if word in ("ARRAY", "MAP") and self._next_is("["):
            return self._elements(tree.Array if word == "ARRAY" else tree.Map, start)
        if self._next_is("("):
            if word in _FORBIDDEN_CALLS:
                self._refuse("FORBIDDEN_SYNTAX", f"{word}(…) is not allowed.")
            return self._special_call(word, start) or self._call(start)
        if word in RESERVED:
            self._refuse_token()
        return self._column(start)

    def _elements(self, kind: type[tree.Node], start: int) -> tree.Node:
        """ARRAY[a, b] and MAP[key, value, …]."""
        self._advance(2)
        values = self._commas(self._expression)
        self._expect_symbol("]")
        if kind is tree.Array:
            return self._at(tree.Array(expressions=values), start)
        return self._at(tree.Map(keys=values[::2], values=values[1::2]), start)

    def _special_call(self, word: str, start: int) -> tree.Node | None:
        """Calls whose arguments are not simply separated by commas; the query grammar adds to this."""
        raise NotImplementedError

    def _call(self, start: int) -> tree.Node:
        raise NotImplementedError

    def _interval(self, start: int) -> tree.Node:
        """INTERVAL '10' MINUTE; any other shape is left to the check, which knows what was meant."""
        self._advance()
        sign = self._take().text if self._is_symbol("-", "+") else ""
        value = self._operand(self._start)
        fine = True
        unit = ""
        if self._curr.kind is TokenKind.WORD and self._curr.text.upper() not in _BEHIND_INTERVAL:
            unit, fine = self._unit()
        precision = None
        if unit and self._take_symbol("("):
            precision = self._take().text
            self._expect_symbol(")")
        if unit and self._take_word("TO"):
            to, is_unit = self._unit()
            unit, fine = f"{unit} TO {to}", fine and is_unit
        node = tree.Interval(this=value, unit=tree.Var(this=unit))
        node.meta["sign"], node.meta["precision"], node.meta["wrong"] = sign, precision, not fine
        return self._at(node, start)

    def _unit(self) -> tuple[str, bool]:
        """Parse a unit of time; False, with a finding, if the word is none."""
        token = self._take()
        word = token.text.upper()
        is_unit = word.removesuffix("S") in units.UNITS
        if not is_unit:
            units.refuse(token.text, (token.start, token.end + 1), self.report)
        return word, is_unit

    def _case(self, start: int) -> tree.Node:
        self._advance()
        operand = None if self._is_word("WHEN") else self._expression()
        branches = []
        while self._is_word("WHEN"):
            begin = self._take().start
            condition = self._expression()
            self._expect_word("THEN")
            branches.append(self._at(tree.If(this=condition, true=self._expression()), begin))
        if not branches:
            self._refuse_token("WHEN is missing here", "WHEN")
        default = self._expression() if self._take_word("ELSE") else None
        self._expect_word("END")
        return self._at(tree.Case(this=operand, ifs=branches, default=default), start)
