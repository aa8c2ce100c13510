"""The grammar: one SELECT of the dialect, from tokens to a sqlglot tree. What it cannot say, is refused here.

Every node knows its place: `span(node)`. Nothing backtracks, and no branch recurses deeper than MAX_DEPTH.
"""
