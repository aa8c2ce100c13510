"""FROM: streams, sub-queries, table functions, and what is joined to them."""

from __future__ import annotations

from daggersql.limits import MAX_COLUMNS, MAX_JOINS
from daggersql.syntax import tree
from daggersql.syntax.calls import CallParser
from daggersql.syntax.cursor import CLAUSES
from daggersql.syntax.lexer import TokenKind

_TABLE_TRAILERS = {"TABLESAMPLE", "PIVOT", "UNPIVOT", "MATCH_RECOGNIZE"}
_JOIN_WORDS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL")
_NO_ALIAS = CLAUSES | {"AS", "AND", "OR", "FOR", "VERSION", "WITH"}


class SourceParser(CallParser):
    """The grammar of what rows come from."""

    def _table(self) -> tree.Node:
        start = self._start
        if self._take_symbol("("):
            if not self._is_word("SELECT", "WITH") and not self._is_symbol("("):
                self._refuse("UNSUPPORTED_SUBQUERY", "A bracket in FROM holds a SELECT.")
            source = self._subquery(start)
        elif self._is_word("LATERAL"):
            self._advance()
            self._expect_word("TABLE")
            self._expect_symbol("(")
            source = self._at(tree.Lateral(this=self._call(self._start)), start)
            self._expect_symbol(")")
        elif self._is_word("TABLE") and self._next_is("("):
            self._advance(2)
            source = self._window_table(start)
            self._expect_symbol(")")
        elif self._is_word("UNNEST") and self._next_is("("):
            source = self._unnest(start)
        elif self._is_word("VALUES"):
            self._refuse("FORBIDDEN_SOURCE", "A dagger reads streams, not rows written in the query.")
        elif self._next_is("("):
            source = self._call(start)
        else:
            source = self._stream(start)
        self._refuse_table_trailers()
        return self._at(self._with_alias(source), start)

    def _window_table(self, start: int) -> tree.Node:
        """TUMBLE(TABLE stream, DESCRIPTOR(rowtime), INTERVAL …), or another function that gives rows."""
        begin, name = self._start, self._curr.text
        if name.upper() not in ("TUMBLE", "HOP", "SESSION", "CUMULATE") or not self._next_is("("):
            return self._at(tree.Lateral(this=self._call(begin)), start)
        self._advance(2)
        self._expect_word("TABLE")
        arguments = [self._at(self._stream(self._start), self._start)]
        self._expect_symbol(",")
        self._expect_word("DESCRIPTOR")
        self._expect_symbol("(")
        arguments.append(self._expression())
        self._expect_symbol(")")
        while self._take_symbol(","):
            arguments.append(self._expression())
        self._expect_symbol(")")
        call = self._at(tree.Anonymous(this=name, expressions=arguments), begin)
        return self._at(tree.TableFromRows(this=call), start)

    def _unnest(self, start: int) -> tree.Node:
        self._advance(2)
        node = tree.Unnest(expressions=[self._expression()])
        self._expect_symbol(")")
        if self._take_word("WITH"):
            self._expect_word("ORDINALITY")
            node.set("offset", True)
        return self._at(node, start)

    def _stream(self, start: int) -> tree.Node:
        parts = [self._name("A stream's name")]
        while self._take_symbol("."):
            parts.append(self._field_name())
        table = tree.Table(this=parts[-1])
        table.meta["parts"] = parts
        return self._at(table, start)

    def _refuse_table_trailers(self) -> None:
        if self._is_word(*_TABLE_TRAILERS):
            self._refuse("UNSUPPORTED_CLAUSE", f"{self._curr.text.upper()} is not supported on a stream.")
        if self._is_word("VERSION", "TIMESTAMP", "FOR") and self._next.text.upper() in ("AS", "SYSTEM_TIME"):
            self._refuse("FORBIDDEN_SYNTAX", "A stream has no versions to travel to.")

    def _with_alias(self, source: tree.Node) -> tree.Node:
        if not (self._take_word("AS") or self._alias_follows()):
            return source
        alias = tree.TableAlias(this=self._table_name("An alias"))
        if self._is_symbol("("):
            alias.set("columns", self._column_names())
        source.set("alias", alias)
        self._refuse_table_trailers()
        return source

    def _joins(self) -> list[tree.Node]:
        joins: list[tree.Node] = []
        while self._is_symbol(",") or self._is_word(
            "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL"
        ):
            if len(joins) == MAX_JOINS:
                self._refuse("TOO_MANY_JOINS", f"A query has at most {MAX_JOINS} joins.")
            joins.append(self._join())
        return joins

    def _join(self) -> tree.Node:
        start = self._start
        kind = "COMMA" if self._take_symbol(",") else ""
        while self._is_word(*_JOIN_WORDS[1:], "OUTER", "SEMI", "ANTI"):
            kind = f"{kind} {self._take().text.upper()}".strip()
        operator = self._here()
        if kind != "COMMA":
            self._expect_word("JOIN")
        join = tree.Join(this=self._table(), kind=kind)
        join.meta["operator"] = operator if kind != "COMMA" else (start, start + 1)
        if self._take_word("ON"):
            join.set("on", self._expression())
        elif self._is_word("USING"):
            self._advance()
            join.set("using", self._column_names())
        return self._at(join, start)

    def _column_names(self) -> list[tree.Identifier]:
        self._expect_symbol("(")
        names = self._commas(lambda: self._named_column(self._name("A column's name")), most=MAX_COLUMNS)
        self._expect_symbol(")")
        return names

    def _alias_follows(self) -> bool:
        kind = self._curr.kind
        return kind is TokenKind.QUOTED or (
            kind is TokenKind.WORD and self._curr.text.upper() not in _NO_ALIAS
        )
