"""Expressions: precedence climbing, so that each level of nesting costs a handful of frames."""

from __future__ import annotations

from daggersql.syntax import tree
from daggersql.syntax.lexer import TokenKind
from daggersql.syntax.operands import OperandParser

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


class ExpressionParser(OperandParser):
    """The grammar of operators over operands."""

    def _expression(self, least: int = _OR) -> tree.Node:
        """Parse an expression, one level of nesting deeper."""
        # Without `_deeper`: two frames less per level keep MAX_DEPTH far from Python's recursion limit.
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

    def _prefix(self) -> tree.Node:
        start = self._start
        if self._take_word("NOT"):
            return self._at(tree.Not(this=self._expression(_NOT)), start)
        if self._take_symbol("-"):
            return self._at(tree.Neg(this=self._expression(_UNARY)), start)
        if self._take_symbol("+"):
            return self._at(self._expression(_UNARY), start)
        return self._accesses(self._operand(start), start)

    def _junction(self, first: tree.Node, power: int, start: int) -> tree.Node:
        """Parse AND or OR of any number of operands to a balanced tree, so that a long list is not deep."""
        word, node = ("AND", tree.And) if power == _AND else ("OR", tree.Or)
        operands = [first]
        while self._take_word(word):
            operands.append(self._climb(power + 1))
        while len(operands) > 1:
            paired = [node(this=a, expression=b) for a, b in zip(operands[::2], operands[1::2], strict=False)]
            operands = paired + operands[len(paired) * 2 :]
            for entry in paired:
                entry.meta["start"], entry.meta["end"] = (
                    entry.this.meta["start"],
                    entry.expression.meta["end"],
                )
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
        lower = tree.Anonymous(this="LOWER", expressions=[text])
        lower.meta.update(text.meta)
        return lower

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
            self._refuse_token("NULL, TRUE, FALSE or DISTINCT FROM is missing here")
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
