"""Queries: one SELECT with its clauses, sub-queries in FROM, WITH, and what joins and unites them."""

from __future__ import annotations

from daggerspec.nearest import nearest
from daggersql.findings import QueryError, Rewrite
from daggersql.limits import MAX_BRANCHES, MAX_COLUMNS
from daggersql.syntax import tree
from daggersql.syntax.lexer import TokenKind
from daggersql.syntax.sources import SourceParser

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
_TOP_N = "the first rows of each window are a Top-N, by ROW_NUMBER()"
_NO_FIRST = f"A stream has no first rows: `daggers rows NAME --limit N` shows so many, and {_TOP_N}."
_TRAILERS = {
    "ORDER": f"A stream has no end to sort: `daggers rows NAME --sort FIELD` sorts, and {_TOP_N}.",
    "LIMIT": _NO_FIRST,
    "FETCH": _NO_FIRST,
    "OFFSET": _NO_FIRST,
    "DISTRIBUTE": "Placement of rows is decided by the engine.",
    "CLUSTER": "Placement of rows is decided by the engine.",
    "SORT": "Placement of rows is decided by the engine.",
    "WINDOW": "Named windows are not supported: group by TUMBLE or HOP.",
    "QUALIFY": "QUALIFY is not supported: use HAVING.",
}


class QueryParser(SourceParser):
    """The grammar of the whole text."""

    def parse(self) -> tree.Node:
        """Parse the only statement. Raises: QueryError."""
        self._check_statement()
        query = self._query()
        if self._curr:
            self._refuse_rest()
        return query

    def expression(self) -> tree.Node:
        """Parse a text that is one expression. Raises: QueryError."""
        parsed = self._expression()
        if self._curr:
            self._refuse_token()
        return parsed

    def _check_statement(self) -> None:
        word = self._curr.text.upper() if self._curr.kind is TokenKind.WORD else ""
        if word in ("SELECT", "WITH") or self._is_symbol("("):
            return
        if not self._curr:
            self._refuse_token("There is no query here", "SELECT")
        if word in _STATEMENTS:
            self._refuse("FORBIDDEN_STATEMENT", f"{word} is not allowed: a dagger runs one SELECT.")
        if word == "FROM":
            self._refuse_script()
        near = nearest(word, ("SELECT", "WITH"))
        self._refuse_token("A query begins with SELECT or WITH", near or "SELECT")

    def _refuse_script(self) -> None:
        """Refuse a statement that begins with FROM: Hive's scripts, or a pipe."""
        while self._curr and not self._is_word("MAP", "REDUCE", "TRANSFORM"):
            self._advance()
        if not self._curr:
            self._rewind()
        self._refuse("FORBIDDEN_SYNTAX", "A query begins with SELECT; programs cannot be run over rows.")

    def _refuse_rest(self) -> None:
        word = self._curr.text.upper()
        if self._is_word("LATERAL"):
            self._refuse("FORBIDDEN_SYNTAX", "LATERAL VIEW is not supported: use CROSS JOIN UNNEST.")
        if self._is_word("USING") or self._is_word("VERSION", "FOR"):
            self._refuse("FORBIDDEN_SYNTAX", f"{word} is not allowed here.")
        self._refuse_token()

    # --- queries ---------------------------------------------------------------------------------------

    def _query(self) -> tree.Node:
        """SELECTs, perhaps under WITH, perhaps united."""
        start = self._start
        with_ = self._with() if self._is_word("WITH") else None
        query = self._branch()
        branches = 1
        while self._is_word("UNION", "INTERSECT", "EXCEPT", "MINUS"):
            word = self._take()
            all_ = self._take_word("ALL")
            end = self._prev.end + 1 if not all_ and self._take_word("DISTINCT") else word.end + 1
            branches += 1
            if branches > MAX_BRANCHES:
                raise QueryError(
                    "QUERY_TOO_LARGE",
                    (word.start, word.end + 1),
                    f"A UNION ALL has at most {MAX_BRANCHES} branches.",
                )
            kind = tree.Union if word.text.upper() == "UNION" else tree.Except
            node = kind(this=query, expression=self._branch(), distinct=not all_)
            node.meta["operator"] = (word.start, end)
            query = self._at(node, start)
        self._skip_trailers()
        if with_ is not None:
            query.set("with_", with_)
        return query

    def _branch(self) -> tree.Node:
        start = self._start
        if self._take_symbol("("):
            query = self._deeper(self._query)
            self._expect_symbol(")")
            return query
        if not self._is_word("SELECT"):
            self._refuse_token("SELECT is missing here", "SELECT")
        return self._select(start)

    def _with(self) -> tree.With:
        start = self._take().start
        if self._is_word("RECURSIVE"):
            self._refuse("UNSUPPORTED_SUBQUERY", "A recursive WITH is not supported.")
        return self._at(tree.With(expressions=self._commas(self._cte, most=MAX_BRANCHES)), start)

    def _cte(self) -> tree.Node:
        start = self._start
        name = self._table_name("A name")
        columns = self._column_names() if self._is_symbol("(") else []
        self._expect_word("AS")
        self._expect_symbol("(")
        query = self._deeper(self._query)
        self._expect_symbol(")")
        alias = tree.TableAlias(this=name, columns=columns)
        return self._at(tree.CTE(this=query, alias=alias), start)

    # --- one SELECT ------------------------------------------------------------------------------------

    def _select(self, start: int) -> tree.Node:
        self._expect_word("SELECT")
        select = tree.Select()
        if self._is_word("DISTINCT"):
            word = self._take()
            select.set("distinct", self._at(tree.Distinct(), word.start))
        else:
            self._take_word("ALL", "STREAM")
        select.set("expressions", self._projections())
        if self._take_word("FROM"):
            begin = self._prev.start
            select.set("from_", self._at(tree.From(this=self._table()), begin))
            select.set("joins", self._joins())
        if self._take_word("WHERE"):
            begin = self._prev.start
            select.set("where", self._at(tree.Where(this=self._expression()), begin))
        if self._take_word("GROUP"):
            select.set("group", self._group(self._prev.start))
        if self._take_word("HAVING"):
            begin = self._prev.start
            select.set("having", self._at(tree.Having(this=self._expression()), begin))
        return self._at(select, start)

    def _projections(self) -> list[tree.Node]:
        columns = [self._projection()]
        while self._take_symbol(","):
            # The best-known Dagger query has a comma before FROM.
            if self._is_word("FROM"):
                break
            if len(columns) == MAX_COLUMNS:
                raise QueryError(
                    "TOO_MANY_COLUMNS", self._here(), f"A query has at most {MAX_COLUMNS:,} output columns."
                )
            columns.append(self._projection())
        return columns

    def _projection(self) -> tree.Node:
        start = self._start
        value = self._expression()
        if self._take_word("AS"):
            if self._is_symbol("("):
                self._refuse("UNSUPPORTED_CLAUSE", "One expression has one name.")
            return self._at(tree.Alias(this=value, alias=self._alias()), start)
        if self._alias_follows():
            return self._at(tree.Alias(this=value, alias=self._alias()), start)
        return value

    def _alias(self) -> tree.Identifier:
        """Parse a column's name; an empty text stands for an empty name."""
        token = self._curr
        if token.kind is TokenKind.STRING and not token.text.strip():
            self._advance()
            return self._named_column(self._at(tree.Identifier(this="", quoted=True), token.start))
        return self._named_column(self._field_name())

    def _group(self, start: int) -> tree.Group:
        self._expect_word("BY")
        return self._at(tree.Group(expressions=self._commas(self._group_key, most=MAX_COLUMNS)), start)

    def _group_key(self) -> tree.Node:
        if self._is_word("GROUPING") or (self._is_word("CUBE", "ROLLUP") and self._next_is("(")):
            self._refuse(
                "UNSUPPORTED_GROUPING", "List the columns to group by; sets of groupings are not supported."
            )
        return self._expression()

    def _skip_trailers(self) -> None:
        """Clauses that make no sense on a stream: said, then skipped, so that the rest is checked too."""
        while self._curr and self._curr.kind is TokenKind.WORD and self._curr.text.upper() in _TRAILERS:
            word = self._take()
            name = word.text.upper()
            depth = 0
            while self._curr and not (depth == 0 and (self._is_symbol(")") or self._is_word(*_TRAILERS))):
                depth += self._is_symbol("(") - self._is_symbol(")")
                self._advance()
            start, end = word.start, self._prev.end + 1
            leave_out = Rewrite((start, end), "", f"leave {name} out")
            self.report.error("UNSUPPORTED_CLAUSE", (start, word.end + 1), _TRAILERS[name], leave_out)
