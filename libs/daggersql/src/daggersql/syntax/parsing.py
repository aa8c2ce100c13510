"""From a text to its tree."""

from __future__ import annotations

from daggersql.findings import QueryError, Report, Span
from daggersql.limits import MAX_DEPTH, MAX_TREE_DEPTH, check_size
from daggersql.syntax import lexer, tree
from daggersql.syntax.cursor import span_of
from daggersql.syntax.queries import QueryParser


def parse(sql: str, report: Report) -> tree.Node:
    """Parse one query. Errors that do not stop the parser go to `report`. Raises: QueryError."""
    check_size(sql)
    query = QueryParser(lexer.tokenize(sql, report), sql, report).parse()
    _check_depth(query)
    return query


def check_expression(sql: str, part: Span, report: Report) -> None:
    """Check that a part of the text is one expression, whatever stands around it. Raises: QueryError."""
    check_size(sql)
    start, end = part
    alone = " " * start + sql[start:end]
    QueryParser(lexer.tokenize(alone, report), alone, report).expression()


def parse_expression(text: str, report: Report) -> tree.Node:
    """Parse a text that is one expression. Raises: QueryError."""
    check_size(text)
    expression = QueryParser(lexer.tokenize(text, report), text, report).expression()
    _check_depth(expression)
    return expression


def _check_depth(query: tree.Node) -> None:
    """Long sums inside deep brackets multiply: what follows goes down the tree by recursion."""
    level = [query]
    for _ in range(MAX_TREE_DEPTH):
        level = [below for node in level for below in node.children()]
        if not level:
            return
    raise QueryError(
        "QUERY_TOO_DEEP", span_of(level[0]), f"The query is nested more than {MAX_DEPTH} levels deep here."
    )
