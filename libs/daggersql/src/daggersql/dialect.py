"""The Dagger dialect, as sqlglot knows dialects: `sqlglot.parse_one(sql, dialect="dagger")` works too."""

from __future__ import annotations

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token

from daggersql import lexer
from daggersql.findings import Report
from daggersql.grammar.queries import QueryParser
from daggersql.limits import check_size


class Dagger(Dialect):
    """Flink SQL as Dagger's users write it, and nothing else."""

    class Tokenizer(tokens.Tokenizer):
        """Every word is a name until the grammar decides."""

        IDENTIFIERS = ["`"]  # noqa: RUF012 - sqlglot's metaclass reads a plain list

        def tokenize(self, sql: str) -> list[Token]:
            """The tokens of one statement. Raises: Refused."""
            return lexer.tokenize(sql)

    Parser = QueryParser


def parse(sql: str, report: Report) -> exp.Expr:
    """The tree of one query. What can be said without stopping goes to `report`. Raises: Refused."""
    check_size(sql)
    dialect = Dagger()
    tree = QueryParser(dialect, report).parse(dialect.tokenize(sql), sql)[0]
    assert tree is not None
    return tree
