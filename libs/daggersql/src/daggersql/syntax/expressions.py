"""Expressions: precedence climbing, so that each level of nesting costs a handful of frames."""

from __future__ import annotations

from daggersql.findings import Refused
from daggersql.limits import MAX_DEPTH
from daggersql.syntax import tree, units
from daggersql.syntax.cursor import KEYWORDS, RESERVED, Cursor
from daggersql.syntax.lexer import TokenKind

# Binding powers, as Flink's (Calcite's) precedences order them.
_OR, _AND, _NOT, _IS, _COMPARE, _RANGE, _ADD, _MULTIPLY, _UNARY = range(1, 10)
_INFIX: dict[str, tuple[int, type[tree.Binary]]] = {
    "=": (_COMPARE, tree.EQ),
    "<>": (_COMPARE, tree.NEQ),
    "!=": (_COMPARE, tree.NEQ),
    "<": (_COMPARE, tree.LT),
    "<=": (_COMPARE, tree.LTE),
    ">": (_COMPARE, tree.GT),
    ">=": (_COMPARE, tree.GTE),
    "+": (_ADD, tree.Add),
    "-": (_ADD, tree.Sub),
    "*": (_MULTIPLY, tree.Mul),
    "/": (_MULTIPLY, tree.Div),
    "%": (_MULTIPLY, tree.Mod),
    "||": (_MULTIPLY, tree.DPipe),
}
_POSTFIX = {"IS": _IS, "IN": _RANGE, "BETWEEN": _RANGE, "LIKE": _RANGE, "ILIKE": _RANGE, "SIMILAR": _RANGE}
# Words that go on behind an INTERVAL without a unit.
_BEHIND_INTERVAL = KEYWORDS | {"ASC", "DESC", "PRECEDING", "FOLLOWING"}
_FORBIDDEN_CALLS = {"IDENTIFIER", "TRANSFORM", "MAP", "REDUCE"}


class ExpressionParser(Cursor):
    """The grammar of expressions; `_query` is the query grammar's, for sub-queries."""

    def _query(self) -> tree.Node:
        raise NotImplementedError

    def _expression(self, least: int = _OR) -> tree.Node:
        """A whole expression, one level of nesting down."""
        # Not through `_deeper`: two frames less on each level keep MAX_DEPTH far from Python's own limit.
        self._check_depth(self._depth + 1)
        self._depth += 1
        try:
            return self._climb(least)
        finally:
            self._depth -= 1

    def _climb(self, least: int) -> tree.Node:
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
            elif self._curr.kind is TokenKind.SYMBOL and self._curr.text in _INFIX:
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

    def _junction(self, first: tree.Node, power: int, start: int) -> tree.Node:
        """AND or OR of any number of operands, as a balanced tree: a long list of them is not deep."""
        word, node = ("AND", tree.And) if power == _AND else ("OR", tree.Or)
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
        if self._curr.kind is not TokenKind.WORD:
            return None
        word = self._curr.text.upper()
        if word == "NOT" and self._next.kind is TokenKind.WORD:
            word = self._next.text.upper()
            return word if word in _POSTFIX and word != "IS" else None
        return word if word in _POSTFIX else None

    def _postfix(self, left: tree.Node, start: int) -> tree.Node:
        if self._take_word("IS"):
            return self._is_something(left, start)
        negated = self._take_word("NOT")
        if self._take_word("IN"):
            node: tree.Node = self._in(left, start)
        elif self._take_word("BETWEEN"):
            node = self._between(left, start)
        elif self._take_word("LIKE"):
            node = tree.Like(this=left, expression=self._climb(_ADD))
            if self._take_word("ESCAPE"):
                node = tree.Escape(this=self._at(node, start), expression=self._climb(_ADD))
        elif self._take_word("ILIKE"):
            pattern = self._climb(_ADD)
            if self._is_word("ESCAPE"):
                self._refuse("UNSUPPORTED_OPERATION", "ILIKE has no ESCAPE: write LOWER(…) LIKE … ESCAPE ….")
            node = tree.Like(this=self._lower(left), expression=self._lower(pattern))
        else:
            self._expect_word("SIMILAR")
            self._expect_word("TO")
            node = tree.SimilarTo(this=left, expression=self._climb(_ADD))
            if self._take_word("ESCAPE"):
                node = tree.Escape(this=self._at(node, start), expression=self._climb(_ADD))
        node = self._at(node, start)
        return self._at(tree.Not(this=node), start) if negated else node

    def _lower(self, text: tree.Node) -> tree.Node:
        made = tree.Anonymous(this="LOWER", expressions=[text])
        made.meta.update(text.meta)
        return made

    def _between(self, value: tree.Node, start: int) -> tree.Node:
        symmetric = not self._take_word("ASYMMETRIC") and self._take_word("SYMMETRIC")
        low = self._climb(_ADD)
        self._expect_word("AND")
        high = self._climb(_ADD)
        node = tree.Between(this=value, low=low, high=high)
        if not symmetric:
            return node
        turned = tree.Between(this=value.copy(), low=high.copy(), high=low.copy())
        return tree.Or(this=self._at(node, start), expression=self._at(turned, start))

    def _is_something(self, left: tree.Node, start: int) -> tree.Node:
        negated = self._take_word("NOT")
        if self._take_word("NULL"):
            right: tree.Node = tree.Null()
        elif self._is_word("TRUE", "FALSE"):
            right = tree.Boolean(this=self._take().text.upper() == "TRUE")
        elif self._take_word("UNKNOWN"):
            right = tree.Null()
        elif self._take_word("DISTINCT"):
            self._expect_word("FROM")
            other = self._climb(_COMPARE)
            node = tree.NullSafeNEQ if not negated else tree.NullSafeEQ
            return self._at(node(this=left, expression=other), start)
        else:
            self._unexpected("NULL, TRUE, FALSE or DISTINCT FROM is missing here")
        same = self._at(tree.Is(this=left, expression=right), start)
        return self._at(tree.Not(this=same), start) if negated else same

    def _in(self, left: tree.Node, start: int) -> tree.Node:
        self._expect_symbol("(")
        if self._is_word("SELECT", "WITH"):
            query = self._subquery(self._prev.start)
            return tree.In(this=left, query=query)
        values = self._commas(self._expression)
        self._expect_symbol(")")
        return self._at(tree.In(this=left, expressions=values), start)

    # --- operands --------------------------------------------------------------------------------------

    def _prefix(self) -> tree.Node:
        start = self._start
        if self._take_word("NOT"):
            return self._at(tree.Not(this=self._expression(_NOT)), start)
        if self._take_symbol("-"):
            return self._at(tree.Neg(this=self._expression(_UNARY)), start)
        if self._take_symbol("+"):
            return self._at(self._expression(_UNARY), start)
        return self._accesses(self._operand(start), start)

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
        raise Refused("QUERY_TOO_DEEP", self._here(), f"More than {MAX_DEPTH} fields or elements in a chain.")

    def _data_type(self) -> tree.DataType:
        raise NotImplementedError

    def _field_name(self) -> tree.Identifier:
        """Behind a dot every word is a name."""
        token = self._curr
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            self._unexpected("A field's name is missing here")
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
            case TokenKind.HEX:
                self._advance()
                return self._at(tree.HexString(this=token.text), start)
            case TokenKind.WORD:
                return self._word_operand(token.text.upper(), start)
            case TokenKind.QUOTED:
                return self._call(start) if self._next_is("(") else self._column(start)
        if self._take_symbol("("):
            return self._bracketed(start)
        if self._take_symbol("*"):
            return self._at(tree.Star(), start)
        return self._unexpected()

    def _column(self, start: int) -> tree.Node:
        return self._at(tree.Column(this=self._field_name()), start)

    def _bracketed(self, start: int) -> tree.Node:
        if self._is_word("SELECT", "WITH"):
            return self._subquery(start)
        inner = self._expression()
        if self._is_symbol(","):
            self._refuse("UNSUPPORTED_OPERATION", "A row of several values is not supported here.")
        self._expect_symbol(")")
        return self._at(inner, start)

    def _subquery(self, start: int) -> tree.Node:
        """A query in brackets, the opening one already taken."""
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
            self._unexpected()
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
            to, known = self._unit()
            unit, fine = f"{unit} TO {to}", fine and known
        node = tree.Interval(this=value, unit=tree.Var(this=unit))
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
            self._unexpected("WHEN is missing here", "WHEN")
        default = self._expression() if self._take_word("ELSE") else None
        self._expect_word("END")
        return self._at(tree.Case(this=operand, ifs=branches, default=default), start)
