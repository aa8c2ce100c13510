"""Calls: to the grammar all functions look the same; the few that are written otherwise are unfolded here."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from daggersql.limits import MAX_COLUMNS
from daggersql.syntax.expressions import ExpressionParser

_Type = exp.DataType.Type
_TYPES = {
    "BOOLEAN": _Type.BOOLEAN, "TINYINT": _Type.TINYINT, "SMALLINT": _Type.SMALLINT, "INT": _Type.INT,
    "INTEGER": _Type.INT, "BIGINT": _Type.BIGINT, "FLOAT": _Type.FLOAT, "DOUBLE": _Type.DOUBLE,
    "DECIMAL": _Type.DECIMAL, "DEC": _Type.DECIMAL, "NUMERIC": _Type.DECIMAL, "CHAR": _Type.VARCHAR,
    "VARCHAR": _Type.VARCHAR, "STRING": _Type.VARCHAR, "BINARY": _Type.VARBINARY, "VARBINARY":
    _Type.VARBINARY, "BYTES": _Type.VARBINARY, "DATE": _Type.DATE, "TIMESTAMP": _Type.TIMESTAMP,
    "TIMESTAMP_LTZ": _Type.TIMESTAMP,
}  # fmt: skip


class CallParser(ExpressionParser):
    """The grammar of calls. `F(a FROM b)` and its kin become `F(a, b)`."""

    def _call(self, start: int) -> exp.Expr:
        name = self._take().text
        self._expect_symbol("(")
        arguments: list[exp.Expr] = []
        if not self._is_symbol(")"):
            first = self._start
            if self._take_word("DISTINCT"):
                arguments = [
                    self._at(
                        exp.Distinct(expressions=self._commas(self._expression, most=MAX_COLUMNS)), first
                    )
                ]
            else:
                self._take_word("ALL")
                arguments = self._commas(self._expression, most=MAX_COLUMNS)
        if self._is_word("ORDER", "IGNORE", "RESPECT"):
            self._refuse(
                "UNSUPPORTED_CLAUSE", "An order inside a call is not supported: rows of a stream have none."
            )
        self._expect_symbol(")")
        return self._behind_call(self._at(exp.Anonymous(this=name, expressions=arguments), start), start)

    def _behind_call(self, call: exp.Expr, start: int) -> exp.Expr:
        if self._is_word("WITHIN"):
            self._refuse(
                "UNSUPPORTED_CLAUSE", "WITHIN GROUP is not supported: rows of a stream have no order."
            )
        if self._is_word("FILTER") and self._next_is("("):
            self._advance(2)
            begin = self._start
            self._expect_word("WHERE")
            where = self._at(exp.Where(this=self._expression()), begin)
            self._expect_symbol(")")
            call = self._at(exp.Filter(this=call, expression=where), start)
        if self._is_word("OVER"):
            self.report.error(
                "UNSUPPORTED_OVER",
                (start, self._curr.end + 1),
                "OVER is not supported on a stream: group by TUMBLE or HOP instead.",
            )
            self._skip_over()
            call = self._at(exp.Window(this=call), start)
        return call

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

    def _special_call(self, word: str, start: int) -> exp.Expr | None:
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
            case "EXISTS":
                self._advance(2)
                return self._at(exp.Exists(this=self._subquery(start)), start)
            case _:
                return None

    def _cast(self, start: int) -> exp.Expr:
        self._advance()
        self._expect_symbol("(")
        value = self._expression()
        self._expect_word("AS")
        to = self._data_type()
        self._expect_symbol(")")
        return self._at(exp.Cast(this=value, to=to), start)

    def _data_type(self) -> exp.DataType:
        start, name = self._start, self._curr.text.upper()
        if self._curr.token_type is not TokenType.VAR:
            self._unexpected("A type is missing here")
        self._advance()
        if name not in _TYPES:
            self._prev.start = start
            self.report.error(
                "UNSUPPORTED_TYPE",
                (start, self._prev.end + 1),
                f"{name} is not a type one can cast to: {', '.join(sorted(_TYPES))} are.",
            )
        if name == "DOUBLE":
            self._take_word("PRECISION")
        parameters: list[exp.Expr] = []
        if self._take_symbol("("):
            parameters = self._commas(lambda: self._operand(self._start), most=2)
            self._expect_symbol(")")
        if self._take_word("WITH", "WITHOUT"):
            self._take_word("LOCAL")
            self._expect_word("TIME")
            self._expect_word("ZONE")
        kind = _TYPES.get(name, _Type.UNKNOWN)
        return self._at(exp.DataType(this=kind, expressions=parameters), start)

    def _extract(self, start: int) -> exp.Expr:
        self._advance(2)
        unit = self._at(exp.Var(this=self._take().text.upper()), self._prev.start)
        self._expect_word("FROM")
        value = self._expression()
        self._expect_symbol(")")
        return self._at(exp.Anonymous(this="EXTRACT", expressions=[unit, value]), start)

    def _split_call(self, start: int, *separators: str) -> exp.Expr:
        """`F(a IN b)`, `F(a FROM b FOR c)`, `F(a TO unit)`, or with commas."""
        name = self._take().text
        self._expect_symbol("(")
        arguments = [self._range_free()] if "IN" in separators else [self._expression()]
        for separator in separators:
            if self._take_word(separator):
                if separator == "TO":
                    name = f"{name} TO"
                    unit = self._take()
                    arguments.append(self._at(exp.Var(this=unit.text.upper()), unit.start))
                else:
                    arguments.append(self._expression())
        if self._take_symbol(","):
            arguments += self._commas(self._expression, most=MAX_COLUMNS)
        self._expect_symbol(")")
        return self._at(exp.Anonymous(this=name, expressions=arguments), start)

    def _range_free(self) -> exp.Expr:
        """An expression that leaves a following IN alone."""
        start = self._start
        return self._accesses(self._operand(start), start)

    def _trim(self, start: int) -> exp.Expr:
        """TRIM([BOTH | LEADING | TRAILING] [characters] FROM text) becomes TRIM(text, characters)."""
        name = self._take().text
        self._expect_symbol("(")
        side = self._curr.text.upper() if self._is_word("BOTH", "LEADING", "TRAILING") else ""
        if side:
            self._advance()
        characters: list[exp.Expr] = []
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
        return self._at(exp.Anonymous(this=name, expressions=arguments), start)

    def _json_value(self, start: int) -> exp.Expr:
        """JSON_VALUE(text, path [RETURNING type] [DEFAULT x ON EMPTY] [… ON ERROR]), in plainer calls."""
        name = self._take().text
        self._expect_symbol("(")
        arguments = self._commas(self._expression, most=MAX_COLUMNS)
        to = self._data_type() if self._take_word("RETURNING") else None
        defaults: dict[str, exp.Expr] = {}
        while not self._is_symbol(")"):
            default = self._json_default()
            self._expect_word("ON")
            if not self._is_word("EMPTY", "ERROR"):
                self._unexpected("EMPTY or ERROR is missing here")
            defaults[self._take().text.upper()] = default
        self._expect_symbol(")")

        def call(function: str, *given: exp.Expr) -> exp.Expr:
            made = exp.Anonymous(this=function, expressions=[each.copy() for each in given])
            return self._at(made, start)

        value = call(name, *arguments)
        if to is not None:
            value = self._at(exp.Cast(this=value, to=to), start)
        if len(arguments) != 2 or all(isinstance(each, exp.Null) for each in defaults.values()):
            return value
        text, path = arguments
        whole = self._at(exp.Literal.string("$"), start)
        there, valid = call("JSON_EXISTS", text, path), call("JSON_EXISTS", text, whole)
        nested = self._is_known(call("JSON_QUERY", text, path), start)
        wrong = self._at(exp.Or(this=self._at(exp.Not(this=valid), start), expression=nested), start)
        empty = self._at(exp.And(this=valid.copy(), expression=self._at(exp.Not(this=there), start)), start)
        branches = [
            self._at(exp.If(this=condition, true=answer), start)
            for condition, answer in (
                (self._is_known(value, start), value.copy()),
                (empty, defaults.get("EMPTY", self._at(exp.Null(), start))),
                (wrong, defaults.get("ERROR", self._at(exp.Null(), start))),
            )
        ]
        return self._at(exp.Case(ifs=branches), start)

    def _json_default(self) -> exp.Expr:
        if self._is_word("ERROR"):
            self._refuse(
                "UNSUPPORTED_OPERATION", "One bad text must not end the job: use NULL or DEFAULT.", "NULL"
            )
        start = self._start
        if self._take_word("NULL"):
            return self._at(exp.Null(), start)
        self._expect_word("DEFAULT")
        return self._expression()

    def _is_known(self, value: exp.Expr, start: int) -> exp.Expr:
        same = self._at(exp.Is(this=value, expression=self._at(exp.Null(), start)), start)
        return self._at(exp.Not(this=same), start)
