"""Expressions: precedence climbing, so that each level of nesting costs a handful of frames."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from daggersql.findings import Refused
from daggersql.limits import MAX_DEPTH
from daggersql.syntax import units
from daggersql.syntax.cursor import KEYWORDS, RESERVED, Cursor
from daggersql.syntax.lexer import SYMBOL

# Binding powers, as Flink's (Calcite's) precedences order them.
_OR, _AND, _NOT, _IS, _COMPARE, _RANGE, _ADD, _MULTIPLY, _UNARY = range(1, 10)
_INFIX: dict[str, tuple[int, type[exp.Binary]]] = {
    "=": (_COMPARE, exp.EQ),
    "<>": (_COMPARE, exp.NEQ),
    "!=": (_COMPARE, exp.NEQ),
    "<": (_COMPARE, exp.LT),
    "<=": (_COMPARE, exp.LTE),
    ">": (_COMPARE, exp.GT),
    ">=": (_COMPARE, exp.GTE),
    "+": (_ADD, exp.Add),
    "-": (_ADD, exp.Sub),
    "*": (_MULTIPLY, exp.Mul),
    "/": (_MULTIPLY, exp.Div),
    "%": (_MULTIPLY, exp.Mod),
    "||": (_MULTIPLY, exp.DPipe),
}
_POSTFIX = {"IS": _IS, "IN": _RANGE, "BETWEEN": _RANGE, "LIKE": _RANGE, "SIMILAR": _RANGE}
# Words that go on behind an INTERVAL without a unit.
_BEHIND_INTERVAL = KEYWORDS | {"ASC", "DESC", "PRECEDING", "FOLLOWING"}
_FORBIDDEN_CALLS = {"IDENTIFIER", "TRANSFORM", "MAP", "REDUCE"}


class ExpressionParser(Cursor):
    """The grammar of expressions; `_query` is the query grammar's, for sub-queries."""

    def _query(self) -> exp.Expr:
        raise NotImplementedError

    def _expression(self, least: int = _OR) -> exp.Expr:
        """A whole expression, one level of nesting down."""
        # Not through `_deeper`: two frames less on each level keep MAX_DEPTH far from Python's own limit.
        self._check_depth(self._depth + 1)
        self._depth += 1
        try:
            return self._climb(least)
        finally:
            self._depth -= 1

    def _climb(self, least: int) -> exp.Expr:
        start = self._start
        left = self._prefix()
        chain = 0
        while True:
            if self._is_word("AND", "OR"):
                power = _AND if self._is_word("AND") else _OR
                if power < least:
                    return left
                left = self._junction(left, power, start)
            elif (word := self._postfix_word()) is not None:
                if _POSTFIX[word] < least:
                    return left
                left = self._postfix(left, start)
            elif self._curr.token_type is SYMBOL and self._curr.text in _INFIX:
                power, node = _INFIX[self._curr.text]
                if power < least:
                    return left
                # A chain is a tree as deep as it is long.
                chain += 1
                self._check_depth(self._depth + chain)
                self._advance()
                left = self._at(node(this=left, expression=self._climb(power + 1)), start)
            else:
                return left

    def _junction(self, first: exp.Expr, power: int, start: int) -> exp.Expr:
        """AND or OR of any number of operands, as a balanced tree: a long list of them is not deep."""
        word, node = ("AND", exp.And) if power == _AND else ("OR", exp.Or)
        operands = [first]
        while self._take_word(word):
            operands.append(self._climb(power + 1))
        while len(operands) > 1:
            paired = [node(this=a, expression=b) for a, b in zip(operands[::2], operands[1::2], strict=False)]
            operands = paired + operands[len(paired) * 2 :]
            for each in paired:
                each.meta["start"], each.meta["end"] = each.this.meta["start"], each.expression.meta["end"]
        return self._at(operands[0], start)

    def _postfix_word(self) -> str | None:
        if self._curr.token_type is not TokenType.VAR:
            return None
        word = self._curr.text.upper()
        if word == "NOT" and self._next.token_type is TokenType.VAR:
            word = self._next.text.upper()
            return word if word in _POSTFIX and word != "IS" else None
        return word if word in _POSTFIX else None

    def _postfix(self, left: exp.Expr, start: int) -> exp.Expr:
        if self._take_word("IS"):
            return self._is_something(left, start)
        negated = self._take_word("NOT")
        if self._take_word("IN"):
            node: exp.Expr = self._in(left, start)
        elif self._take_word("BETWEEN"):
            node = self._between(left, start)
        elif self._take_word("LIKE"):
            node = exp.Like(this=left, expression=self._climb(_ADD))
            if self._take_word("ESCAPE"):
                node = exp.Escape(this=self._at(node, start), expression=self._climb(_ADD))
        else:
            self._expect_word("SIMILAR")
            self._expect_word("TO")
            node = exp.SimilarTo(this=left, expression=self._climb(_ADD))
            if self._take_word("ESCAPE"):
                node = exp.Escape(this=self._at(node, start), expression=self._climb(_ADD))
        node = self._at(node, start)
        return self._at(exp.Not(this=node), start) if negated else node

    def _between(self, value: exp.Expr, start: int) -> exp.Expr:
        symmetric = not self._take_word("ASYMMETRIC") and self._take_word("SYMMETRIC")
        low = self._climb(_ADD)
        self._expect_word("AND")
        high = self._climb(_ADD)
        node = exp.Between(this=value, low=low, high=high)
        if not symmetric:
            return node
        turned = exp.Between(this=value.copy(), low=high.copy(), high=low.copy())
        return exp.Or(this=self._at(node, start), expression=self._at(turned, start))

    def _is_something(self, left: exp.Expr, start: int) -> exp.Expr:
        negated = self._take_word("NOT")
        if self._take_word("NULL"):
            right: exp.Expr = exp.Null()
        elif self._is_word("TRUE", "FALSE"):
            right = exp.Boolean(this=self._take().text.upper() == "TRUE")
        elif self._take_word("UNKNOWN"):
            right = exp.Null()
        elif self._take_word("DISTINCT"):
            self._expect_word("FROM")
            other = self._climb(_COMPARE)
            node = exp.NullSafeNEQ if not negated else exp.NullSafeEQ
            return self._at(node(this=left, expression=other), start)
        else:
            self._unexpected("NULL, TRUE, FALSE or DISTINCT FROM is missing here")
        same = self._at(exp.Is(this=left, expression=right), start)
        return self._at(exp.Not(this=same), start) if negated else same

    def _in(self, left: exp.Expr, start: int) -> exp.Expr:
        self._expect_symbol("(")
        if self._is_word("SELECT", "WITH"):
            query = self._subquery(self._prev.start)
            return exp.In(this=left, query=query)
        values = self._commas(self._expression)
        self._expect_symbol(")")
        return self._at(exp.In(this=left, expressions=values), start)

    # --- operands --------------------------------------------------------------------------------------

    def _prefix(self) -> exp.Expr:
        start = self._start
        if self._take_word("NOT"):
            return self._at(exp.Not(this=self._expression(_NOT)), start)
        if self._take_symbol("-"):
            return self._at(exp.Neg(this=self._expression(_UNARY)), start)
        if self._take_symbol("+"):
            return self._at(self._expression(_UNARY), start)
        return self._accesses(self._operand(start), start)

    def _accesses(self, node: exp.Expr, start: int) -> exp.Expr:
        """Fields and elements behind an operand: `.name`, `[index]`."""
        for _ in range(MAX_DEPTH):
            if self._is_symbol(".") and self._next_is("*"):
                self._advance(2)
                node = self._at(exp.Dot(this=node, expression=exp.Star()), start)
            elif self._take_symbol("."):
                node = self._at(exp.Dot(this=node, expression=self._field_name()), start)
            elif self._take_symbol("["):
                index = self._expression()
                self._expect_symbol("]")
                node = self._at(exp.Bracket(this=node, expressions=[index]), start)
            else:
                return node
        raise Refused("QUERY_TOO_DEEP", self._here(), f"More than {MAX_DEPTH} fields or elements in a chain.")

    def _field_name(self) -> exp.Identifier:
        """Behind a dot every word is a name."""
        token = self._curr
        if token.token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
            self._unexpected("A field's name is missing here")
        self._advance()
        quoted = token.token_type is TokenType.IDENTIFIER
        return self._at(exp.Identifier(this=token.text, quoted=quoted), token.start)

    def _operand(self, start: int) -> exp.Expr:
        token = self._curr
        match token.token_type:
            case TokenType.NUMBER:
                self._advance()
                return self._at(exp.Literal.number(token.text), start)
            case TokenType.STRING:
                self._advance()
                return self._at(exp.Literal.string(token.text), start)
            case TokenType.HEX_STRING:
                self._advance()
                return self._at(exp.HexString(this=token.text), start)
            case TokenType.VAR:
                return self._word_operand(token.text.upper(), start)
            case TokenType.IDENTIFIER:
                return self._call(start) if self._next_is("(") else self._column(start)
        if self._take_symbol("("):
            return self._bracketed(start)
        if self._take_symbol("*"):
            return self._at(exp.Star(), start)
        return self._unexpected()

    def _column(self, start: int) -> exp.Expr:
        return self._at(exp.Column(this=self._field_name()), start)

    def _bracketed(self, start: int) -> exp.Expr:
        if self._is_word("SELECT", "WITH"):
            return self._subquery(start)
        inner = self._expression()
        if self._is_symbol(","):
            self._refuse("UNSUPPORTED_OPERATION", "A row of several values is not supported here.")
        self._expect_symbol(")")
        return self._at(inner, start)

    def _subquery(self, start: int) -> exp.Expr:
        """A query in brackets, the opening one already taken."""
        query = self._deeper(self._query)
        self._expect_symbol(")")
        return self._at(exp.Subquery(this=query), start)

    def _word_operand(self, word: str, start: int) -> exp.Expr:
        followed_by_text = self._next.token_type is TokenType.STRING
        if word in ("TRUE", "FALSE"):
            self._advance()
            return self._at(exp.Boolean(this=word == "TRUE"), start)
        if word == "NULL":
            self._advance()
            return self._at(exp.Null(), start)
        if word == "INTERVAL" and not self._next_is("("):
            return self._interval(start)
        if word in ("DATE", "TIME", "TIMESTAMP") and followed_by_text:
            self._advance()
            text = exp.Literal.string(self._take().text)
            return self._at(exp.Cast(this=text, to=exp.DataType.build(word), default=True), start)
        if word == "CASE":
            return self._case(start)
        if word in ("ARRAY", "MAP") and self._next_is("["):
            return self._elements(exp.Array if word == "ARRAY" else exp.Map, start)
        if self._next_is("("):
            if word in _FORBIDDEN_CALLS:
                self._refuse("FORBIDDEN_SYNTAX", f"{word}(…) is not allowed.")
            return self._special_call(word, start) or self._call(start)
        if word in RESERVED:
            self._unexpected()
        return self._column(start)

    def _elements(self, kind: type[exp.Expr], start: int) -> exp.Expr:
        """ARRAY[a, b] and MAP[key, value, …]."""
        self._advance(2)
        values = self._commas(self._expression)
        self._expect_symbol("]")
        if kind is exp.Array:
            return self._at(exp.Array(expressions=values), start)
        return self._at(exp.Map(keys=values[::2], values=values[1::2]), start)

    def _special_call(self, word: str, start: int) -> exp.Expr | None:
        """Calls whose arguments are not simply separated by commas; the query grammar adds to this."""
        raise NotImplementedError

    def _call(self, start: int) -> exp.Expr:
        raise NotImplementedError

    def _interval(self, start: int) -> exp.Expr:
        """INTERVAL '10' MINUTE; any other shape is left to the check, which knows what was meant."""
        self._advance()
        sign = self._take().text if self._is_symbol("-", "+") else ""
        value = self._operand(self._start)
        fine = True
        unit = ""
        if self._curr.token_type is TokenType.VAR and self._curr.text.upper() not in _BEHIND_INTERVAL:
            unit, fine = self._unit()
        precision = None
        if unit and self._take_symbol("("):
            precision = self._take().text
            self._expect_symbol(")")
        if unit and self._take_word("TO"):
            to, known = self._unit()
            unit, fine = f"{unit} TO {to}", fine and known
        node = exp.Interval(this=value, unit=exp.Var(this=unit))
        node.meta["sign"], node.meta["precision"], node.meta["wrong"] = sign, precision, not fine
        return self._at(node, start)

    def _unit(self) -> tuple[str, bool]:
        """A word as a unit of time, and whether it is one: what is none is said, at the word."""
        token = self._take()
        word = token.text.upper()
        known = word.removesuffix("S") in units.UNITS
        if not known:
            units.refuse(token.text, (token.start, token.end + 1), self.report)
        return word, known

    def _case(self, start: int) -> exp.Expr:
        self._advance()
        operand = None if self._is_word("WHEN") else self._expression()
        branches = []
        while self._is_word("WHEN"):
            begin = self._take().start
            condition = self._expression()
            self._expect_word("THEN")
            branches.append(self._at(exp.If(this=condition, true=self._expression()), begin))
        if not branches:
            self._unexpected("WHEN is missing here", "WHEN")
        default = self._expression() if self._take_word("ELSE") else None
        self._expect_word("END")
        return self._at(exp.Case(this=operand, ifs=branches, default=default), start)
