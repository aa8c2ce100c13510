"""Queries: one SELECT with its clauses, sub-queries in FROM, WITH, and what joins and unites them."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from daggersql.findings import Refused, nearest
from daggersql.grammar.calls import CallParser
from daggersql.grammar.cursor import CLAUSES
from daggersql.limits import MAX_BRANCHES, MAX_COLUMNS, MAX_JOINS

_STATEMENTS = frozenset(
    [
        "ADD",
        "ALTER",
        "ANALYZE",
        "BEGIN",
        "CACHE",
        "CALL",
        "CLEAR",
        "COMMENT",
        "COMMIT",
        "COPY",
        "CREATE",
        "DECLARE",
        "DELETE",
        "DESC",
        "DESCRIBE",
        "DFS",
        "DROP",
        "EXECUTE",
        "EXPLAIN",
        "EXPORT",
        "FETCH",
        "GRANT",
        "IMPORT",
        "INSERT",
        "LIST",
        "LOAD",
        "LOCK",
        "MERGE",
        "MSCK",
        "OPTIMIZE",
        "PREPARE",
        "PUT",
        "REFRESH",
        "RELOAD",
        "REMOVE",
        "REPAIR",
        "REPLACE",
        "RESET",
        "REVOKE",
        "ROLLBACK",
        "SET",
        "SHOW",
        "START",
        "STOP",
        "TABLE",
        "TRUNCATE",
        "UNCACHE",
        "UNLOAD",
        "UNLOCK",
        "UNSET",
        "UPDATE",
        "USE",
        "VACUUM",
        "VALUES",
        "IF",
        "WHILE",
        "FOR",
        "LOOP",
        "LEAVE",
        "ITERATE",
        "RETURN",
        "SIGNAL",
    ]
)
_TRAILERS = {
    "ORDER": "A stream has no end, so it cannot be sorted: sort where the rows are read.",
    "LIMIT": "A stream has no first rows: use the preview, which takes a row count.",
    "FETCH": "A stream has no first rows: use the preview, which takes a row count.",
    "OFFSET": "A stream has no first rows: use the preview, which takes a row count.",
    "DISTRIBUTE": "Placement of rows is decided by the engine.",
    "CLUSTER": "Placement of rows is decided by the engine.",
    "SORT": "Placement of rows is decided by the engine.",
    "WINDOW": "Named windows are not supported: group by TUMBLE or HOP.",
    "QUALIFY": "QUALIFY is not supported: use HAVING.",
}
_TABLE_TRAILERS = {"TABLESAMPLE", "PIVOT", "UNPIVOT", "MATCH_RECOGNIZE"}


class QueryParser(CallParser):
    """The grammar of the whole text."""

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        """The tree of the one statement, in a list as sqlglot has it. Raises: Refused."""
        self.reset()
        self.sql, self._chunks = sql, [raw_tokens]
        self._advance_chunk()
        self._check_statement()
        query = self._query()
        if self._curr:
            self._refuse_rest()
        return [query]

    def _check_statement(self) -> None:
        word = self._curr.text.upper() if self._curr.token_type is TokenType.VAR else ""
        if word in ("SELECT", "WITH") or self._is_symbol("("):
            return
        if not self._curr:
            self._unexpected("There is no query here", "SELECT")
        if word in _STATEMENTS:
            self._refuse("FORBIDDEN_STATEMENT", f"{word} is not allowed: a dagger runs one SELECT.")
        if word == "FROM":
            self._refuse_script()
        near = nearest(word, ("SELECT", "WITH"))
        self._unexpected("A query begins with SELECT or WITH", near or "SELECT")

    def _refuse_script(self) -> None:
        """FROM first: Hive's way to run a program over the rows, or a pipe."""
        while self._curr and not self._is_word("MAP", "REDUCE", "TRANSFORM"):
            self._advance()
        if not self._curr:
            self._retreat(0)
        self._refuse("FORBIDDEN_SYNTAX", "A query begins with SELECT; programs cannot be run over rows.")

    def _refuse_rest(self) -> None:
        word = self._curr.text.upper()
        if self._is_word("LATERAL"):
            self._refuse("FORBIDDEN_SYNTAX", "LATERAL VIEW is not supported: use CROSS JOIN UNNEST.")
        if self._is_word("USING") or self._is_word("VERSION", "FOR"):
            self._refuse("FORBIDDEN_SYNTAX", f"{word} is not allowed here.")
        self._unexpected()

    # --- queries ---------------------------------------------------------------------------------------

    def _query(self) -> exp.Expr:
        """SELECTs, perhaps under WITH, perhaps united."""
        start = self._start
        with_ = self._with() if self._is_word("WITH") else None
        query = self._branch()
        branches = 1
        while self._is_word("UNION", "INTERSECT", "EXCEPT", "MINUS"):
            word = self._take()
            all_ = self._take_word("ALL")
            if not all_:
                self._take_word("DISTINCT")
            branches += 1
            if branches > MAX_BRANCHES:
                raise Refused(
                    "QUERY_TOO_LARGE", (word.start, word.end + 1), f"More than {MAX_BRANCHES} branches."
                )
            kind = exp.Union if word.text.upper() == "UNION" else exp.Except
            node = kind(this=query, expression=self._branch(), distinct=not all_)
            node.meta["operator"] = (word.start, word.end + 1)
            query = self._at(node, start)
        self._skip_trailers()
        if with_ is not None:
            query.set("with_", with_)
        return query

    def _branch(self) -> exp.Expr:
        start = self._start
        if self._take_symbol("("):
            query = self._deeper(self._query)
            self._expect_symbol(")")
            return query
        if not self._is_word("SELECT"):
            self._unexpected("SELECT is missing here", "SELECT")
        return self._select(start)

    def _with(self) -> exp.With:
        start = self._take().start
        if self._is_word("RECURSIVE"):
            self._refuse("UNSUPPORTED_SUBQUERY", "A recursive WITH is not supported.")
        return self._at(exp.With(expressions=self._commas(self._cte, most=MAX_BRANCHES)), start)

    def _cte(self) -> exp.Expr:
        start = self._start
        name = self._name("A name")
        columns = self._column_names() if self._is_symbol("(") else []
        self._expect_word("AS")
        self._expect_symbol("(")
        query = self._deeper(self._query)
        self._expect_symbol(")")
        alias = exp.TableAlias(this=name, columns=columns)
        return self._at(exp.CTE(this=query, alias=alias), start)

    def _column_names(self) -> list[exp.Identifier]:
        self._expect_symbol("(")
        names = self._commas(lambda: self._name("A column's name"), most=MAX_COLUMNS)
        self._expect_symbol(")")
        return names

    # --- one SELECT ------------------------------------------------------------------------------------

    def _select(self, start: int) -> exp.Expr:
        self._expect_word("SELECT")
        select = exp.Select()
        if self._is_word("DISTINCT"):
            word = self._take()
            select.set("distinct", self._at(exp.Distinct(), word.start))
        else:
            self._take_word("ALL", "STREAM")
        select.set("expressions", self._projections())
        if self._take_word("FROM"):
            begin = self._prev.start
            select.set("from_", self._at(exp.From(this=self._table()), begin))
            select.set("joins", self._joins())
        if self._take_word("WHERE"):
            begin = self._prev.start
            select.set("where", self._at(exp.Where(this=self._expression()), begin))
        if self._take_word("GROUP"):
            select.set("group", self._group(self._prev.start))
        if self._take_word("HAVING"):
            begin = self._prev.start
            select.set("having", self._at(exp.Having(this=self._expression()), begin))
        return self._at(select, start)

    def _projections(self) -> list[exp.Expr]:
        found = [self._projection()]
        while self._take_symbol(","):
            # The best-known Dagger query has a comma before FROM.
            if self._is_word("FROM"):
                break
            if len(found) == MAX_COLUMNS:
                raise Refused("TOO_MANY_COLUMNS", self._here(), f"More than {MAX_COLUMNS} output columns.")
            found.append(self._projection())
        return found

    def _projection(self) -> exp.Expr:
        start = self._start
        value = self._expression()
        if self._take_word("AS"):
            if self._is_symbol("("):
                self._refuse("UNSUPPORTED_CLAUSE", "One expression has one name.")
            return self._at(exp.Alias(this=value, alias=self._field_name()), start)
        if self._alias_follows():
            return self._at(exp.Alias(this=value, alias=self._field_name()), start)
        return value

    def _alias_follows(self) -> bool:
        kind = self._curr.token_type
        return kind is TokenType.IDENTIFIER or (
            kind is TokenType.VAR
            and self._curr.text.upper() not in CLAUSES | {"AS", "AND", "OR", "FOR", "VERSION"}
        )

    def _group(self, start: int) -> exp.Group:
        self._expect_word("BY")
        return self._at(exp.Group(expressions=self._commas(self._group_key, most=MAX_COLUMNS)), start)

    def _group_key(self) -> exp.Expr:
        if self._is_word("GROUPING") or (self._is_word("CUBE", "ROLLUP") and self._next_is("(")):
            self._refuse(
                "UNSUPPORTED_GROUPING", "List the columns to group by; sets of groupings are not supported."
            )
        return self._expression()

    def _skip_trailers(self) -> None:
        """Clauses that make no sense on a stream: said, then skipped, so that the rest is checked too."""
        while self._curr and self._curr.token_type is TokenType.VAR and self._curr.text.upper() in _TRAILERS:
            word = self._take()
            name = word.text.upper()
            self.report.error("UNSUPPORTED_CLAUSE", (word.start, word.end + 1), _TRAILERS[name])
            depth = 0
            while self._curr and not (depth == 0 and (self._is_symbol(")") or self._is_word(*_TRAILERS))):
                depth += self._is_symbol("(") - self._is_symbol(")")
                self._advance()

    # --- sources ---------------------------------------------------------------------------------------

    def _table(self) -> exp.Expr:
        start = self._start
        if self._take_symbol("("):
            if not self._is_word("SELECT", "WITH") and not self._is_symbol("("):
                self._refuse("UNSUPPORTED_SUBQUERY", "A bracket in FROM holds a SELECT.")
            source = self._subquery(start)
        elif self._is_word("LATERAL"):
            self._advance()
            self._expect_word("TABLE")
            source = self._at(exp.Lateral(this=self._table_call()), start)
        elif self._is_word("TABLE") and self._next_is("("):
            self._advance()
            source = self._table_call()
        elif self._is_word("VALUES"):
            self._refuse("FORBIDDEN_SOURCE", "A dagger reads streams, not rows written in the query.")
        elif self._next_is("("):
            source = self._call(start)
        else:
            source = self._stream(start)
        self._refuse_table_trailers()
        return self._at(self._with_alias(source), start)

    def _table_call(self) -> exp.Expr:
        """TABLE( … ), the word already taken: kept by its place only."""
        start = self._start
        self._skip_over_brackets()
        return self._at(exp.Table(this=exp.Anonymous(this="TABLE")), start)

    def _skip_over_brackets(self) -> None:
        depth = 0
        while self._curr:
            depth += self._is_symbol("(") - self._is_symbol(")")
            self._advance()
            if depth == 0:
                return
        self._expect_symbol(")")

    def _stream(self, start: int) -> exp.Expr:
        parts = [self._name("A stream's name")]
        while self._take_symbol("."):
            parts.append(self._field_name())
        table = exp.Table(this=parts[-1])
        table.meta["parts"] = parts
        return self._at(table, start)

    def _refuse_table_trailers(self) -> None:
        if self._is_word(*_TABLE_TRAILERS):
            self._refuse("UNSUPPORTED_CLAUSE", f"{self._curr.text.upper()} is not supported on a stream.")
        if self._is_word("VERSION", "TIMESTAMP", "FOR") and self._next.text.upper() in ("AS", "SYSTEM_TIME"):
            self._refuse("FORBIDDEN_SYNTAX", "A stream has no versions to travel to.")

    def _with_alias(self, source: exp.Expr) -> exp.Expr:
        if not (self._take_word("AS") or self._alias_follows()):
            return source
        alias = exp.TableAlias(this=self._name("An alias"))
        if self._is_symbol("("):
            start = self._start
            alias.set("columns", self._column_names())
            alias.meta["columns_start"] = start
        source.set("alias", alias)
        self._refuse_table_trailers()
        return source

    def _joins(self) -> list[exp.Expr]:
        joins: list[exp.Expr] = []
        while self._is_symbol(",") or self._is_word(
            "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL"
        ):
            if len(joins) == MAX_JOINS:
                self._refuse("TOO_MANY_JOINS", f"More than {MAX_JOINS} joins.")
            joins.append(self._join())
        return joins

    def _join(self) -> exp.Expr:
        start = self._start
        kind = "COMMA" if self._take_symbol(",") else ""
        while self._is_word("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "OUTER", "SEMI", "ANTI"):
            kind = f"{kind} {self._take().text.upper()}".strip()
        at = self._here()
        if kind != "COMMA":
            self._expect_word("JOIN")
        join = exp.Join(this=self._table(), kind=kind)
        join.meta["operator"] = at if kind != "COMMA" else (start, start + 1)
        if self._take_word("ON"):
            join.set("on", self._expression())
        elif self._is_word("USING"):
            self._advance()
            join.set("using", self._column_names())
        return self._at(join, start)
