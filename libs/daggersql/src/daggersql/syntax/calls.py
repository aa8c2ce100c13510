"""Calls: to the grammar all functions look the same; the few that are written otherwise are unfolded here."""

from __future__ import annotations

from daggersql.limits import MAX_COLUMNS
from daggersql.syntax import tree, typenames
from daggersql.syntax.jsoncalls import JsonParser
from daggersql.syntax.lexer import TokenKind


class CallParser(JsonParser):
    """The grammar of calls. `F(a FROM b)` and its kin become `F(a, b)`."""

    def _call(self, start: int) -> tree.Node:
        name = self._take().text
        self._expect_symbol("(")
        arguments: list[tree.Node] = []
        if not self._is_symbol(")"):
            first = self._start
            if self._take_word("DISTINCT"):
                arguments = [
                    self._at(
                        tree.Distinct(expressions=self._commas(self._expression, most=MAX_COLUMNS)), first
                    )
                ]
            else:
                self._take_word("ALL")
                arguments = self._commas(self._argument, most=MAX_COLUMNS)
        if self._is_word("ORDER", "IGNORE", "RESPECT"):
            self._refuse(
                "UNSUPPORTED_CLAUSE", "An order inside a call is not supported: rows of a stream have none."
            )
        self._expect_symbol(")")
        return self._behind_call(self._at(tree.Anonymous(this=name, expressions=arguments), start), start)

    def _argument(self) -> tree.Node:
        if self._curr.kind is not TokenKind.WORD or not self._next_is("=>"):
            return self._expression()
        start, name = self._start, self._curr.text
        self._advance(2)
        return self._at(tree.NamedArgument(this=name, expression=self._expression()), start)

    def _behind_call(self, call: tree.Node, start: int) -> tree.Node:
        if self._is_word("WITHIN"):
            self._refuse(
                "UNSUPPORTED_CLAUSE", "WITHIN GROUP is not supported: rows of a stream have no order."
            )
        if self._is_word("FILTER") and self._next_is("("):
            self._advance(2)
            begin = self._start
            self._expect_word("WHERE")
            where = self._at(tree.Where(this=self._expression()), begin)
            self._expect_symbol(")")
            call = self._at(tree.Filter(this=call, expression=where), start)
        if self._is_word("OVER"):
            return self._over(call, start)
        return call

    def _over(self, call: tree.Node, start: int) -> tree.Node:
        """ROW_NUMBER() OVER (PARTITION BY … ORDER BY …); any other OVER is said, and skipped."""
        end = self._curr.end + 1
        if not (
            isinstance(call, tree.Anonymous) and call.name.upper() == "ROW_NUMBER" and self._next_is("(")
        ):
            ranks = isinstance(call, tree.Anonymous) and call.name.upper() in ("RANK", "DENSE_RANK")
            self.report.error(
                "UNSUPPORTED_OVER",
                (start, end),
                "Rows are numbered by ROW_NUMBER only."
                if ranks
                else "OVER is not supported on a stream: group by TUMBLE or HOP instead.",
            )
            self._skip_over()
            return self._at(tree.Window(this=call), start)
        self._advance(2)
        partition: list[tree.Node] = []
        if self._take_word("PARTITION"):
            self._expect_word("BY")
            partition = self._commas(self._expression, most=MAX_COLUMNS)
        self._expect_word("ORDER")
        self._expect_word("BY")
        order = self._commas(self._sort_key, most=MAX_COLUMNS)
        self._expect_symbol(")")
        return self._at(tree.Window(this=call, partition=partition, order=order), start)

    def _sort_key(self) -> tree.Node:
        """Parse a key of ORDER BY. NULL is the least value, as in Flink; NULLS may only say the same."""
        start = self._start
        value = self._expression()
        descending = self._take_word("DESC")
        if not descending:
            self._take_word("ASC")
        if self._take_word("NULLS"):
            span = "LAST" if descending else "FIRST"
            if not self._is_word(span):
                self._refuse("UNSUPPORTED_CLAUSE", f"NULL is the least value: here, it comes {span}.", span)
            self._advance()
        return self._at(tree.SortKey(this=value, descending=descending), start)

    def _skip_over(self) -> None:
        self._advance()
        if not self._is_symbol("("):
            self._name("A window's name")
            return
        depth = 0
        while self._curr:
            depth += self._is_symbol("(") - self._is_symbol(")")
            self._advance()
            if depth == 0:
                return
        self._expect_symbol(")")

    def _special_call(self, word: str, start: int) -> tree.Node | None:
        match word:
            case "CAST" | "TRY_CAST":
                return self._cast(start)
            case "EXTRACT":
                return self._extract(start)
            case "POSITION":
                return self._split_call(start, "IN")
            case "SUBSTRING" | "SUBSTR":
                return self._split_call(start, "FROM", "FOR")
            case "FLOOR" | "CEIL" | "CEILING":
                return self._split_call(start, "TO")
            case "TRIM":
                return self._trim(start)
            case "OVERLAY":
                return self._split_call(start, "PLACING", "FROM", "FOR")
            case "JSON_VALUE":
                return self._json_value(start)
            case "JSON_EXISTS":
                return self._json_exists(start)
            case "JSON_QUERY":
                return self._json_call(start)
            case "EXISTS":
                self._advance(2)
                return self._at(tree.Exists(this=self._subquery(start)), start)
            case _:
                return None

    def _cast(self, start: int) -> tree.Node:
        self._advance()
        self._expect_symbol("(")
        value = self._expression()
        self._expect_word("AS")
        to = self._data_type()
        self._expect_symbol(")")
        return self._at(tree.Cast(this=value, to=to), start)

    def _data_type(self) -> tree.DataType:
        start, name = self._start, self._curr.text.upper()
        if self._curr.kind is not TokenKind.WORD:
            self._refuse_token("A type is missing here")
        self._advance()
        if name not in typenames.TYPES:
            typenames.refuse(name, (start, self._prev.end + 1), self.report)
        if name == "DOUBLE":
            self._take_word("PRECISION")
        parameters: list[tree.Node] = []
        if self._take_symbol("("):
            parameters = self._commas(lambda: self._operand(self._start), most=2)
            self._expect_symbol(")")
        if self._take_word("WITH", "WITHOUT"):
            self._take_word("LOCAL")
            self._expect_word("TIME")
            self._expect_word("ZONE")
        kind = typenames.TYPES.get(name, tree.TypeName.UNKNOWN)
        return self._at(tree.DataType(this=kind, expressions=parameters), start)

    def _extract(self, start: int) -> tree.Node:
        self._advance(2)
        unit = self._at(tree.Var(this=self._take().text.upper()), self._prev.start)
        self._expect_word("FROM")
        value = self._expression()
        self._expect_symbol(")")
        return self._at(tree.Anonymous(this="EXTRACT", expressions=[unit, value]), start)

    def _split_call(self, start: int, *separators: str) -> tree.Node:
        """`F(a IN b)`, `F(a FROM b FOR c)`, `F(a TO unit)`, or with commas."""
        name = self._take().text
        self._expect_symbol("(")
        arguments = [self._range_free()] if "IN" in separators else [self._expression()]
        for separator in separators:
            if self._take_word(separator):
                if separator == "TO":
                    name = f"{name} TO"
                    unit = self._take()
                    arguments.append(self._at(tree.Var(this=unit.text.upper()), unit.start))
                else:
                    arguments.append(self._expression())
        if self._take_symbol(","):
            arguments += self._commas(self._expression, most=MAX_COLUMNS)
        self._expect_symbol(")")
        return self._at(tree.Anonymous(this=name, expressions=arguments), start)

    def _range_free(self) -> tree.Node:
        """Parse an expression up to a following IN."""
        start = self._start
        return self._accesses(self._operand(start), start)

    def _trim(self, start: int) -> tree.Node:
        """TRIM([BOTH | LEADING | TRAILING] [characters] FROM text) becomes TRIM(text, characters)."""
        name = self._take().text
        self._expect_symbol("(")
        side = self._curr.text.upper() if self._is_word("BOTH", "LEADING", "TRAILING") else ""
        if side:
            self._advance()
        characters: list[tree.Node] = []
        if not self._is_word("FROM"):
            characters = [self._expression()]
        if self._take_word("FROM"):
            arguments = [self._expression(), *characters]
        else:
            arguments = characters
            if self._take_symbol(","):
                arguments += self._commas(self._expression, most=MAX_COLUMNS)
        self._expect_symbol(")")
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(side, name)
        return self._at(tree.Anonymous(this=name, expressions=arguments), start)
