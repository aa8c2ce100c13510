"""The Dagger dialect, as sqlglot knows dialects: `sqlglot.parse_one(sql, dialect="dagger")` works too."""

from __future__ import annotations

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token

from daggersql.findings import Refused, Report
from daggersql.limits import MAX_DEPTH, MAX_TREE_DEPTH, check_size
from daggersql.syntax import lexer
from daggersql.syntax.cursor import span
from daggersql.syntax.queries import QueryParser


class Dagger(Dialect):
    """Flink SQL as Dagger's users write it, and nothing else."""

    class Tokenizer(tokens.Tokenizer):
        """Every word is a name until the grammar decides."""

        IDENTIFIERS = ["`"]  # noqa: RUF012 - sqlglot's metaclass reads a plain list

        def tokenize(self, sql: str) -> list[Token]:
            """The tokens of one statement. Raises: Refused."""
            report = Report(sql)
            found = lexer.tokenize(sql, report)
            for finding in report.findings():  # a caller of sqlglot's own has no report
                raise Refused(finding.code, (0, len(sql)), finding.message)
            return found

    Parser = QueryParser


def parse(sql: str, report: Report) -> exp.Expr:
    """The tree of one query. What can be said without stopping goes to `report`. Raises: Refused."""
    check_size(sql)
    dialect = Dagger()
    tree = QueryParser(dialect, report).parse(lexer.tokenize(sql, report), sql)[0]
    assert tree is not None
    _check_depth(tree)
    return tree


def _check_depth(tree: exp.Expr) -> None:
    """Long sums inside deep brackets multiply: what follows goes down the tree by recursion."""
    level = [tree]
    for _ in range(MAX_TREE_DEPTH):
        level = [below for node in level for below in node.iter_expressions()]
        if not level:
            return
    raise Refused(
        "QUERY_TOO_DEEP", span(level[0]), f"The query is nested more than {MAX_DEPTH} levels deep here."
    )
