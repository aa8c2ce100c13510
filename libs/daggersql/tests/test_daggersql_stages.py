"""The stages: what is SQL stands in emit and in the files of functions, and decisions go by the IR."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from libs.daggersql.tests.daggersql_schema import TABLES
from tests.conformance.corpus import tables
from tests.golden.plans import calls, kept, plans

import daggersql
from daggersql import check
from daggersql.emit import called
from daggersql.emit.operators import BOUNDS, TEMPLATES
from daggersql.functions import registry
from daggersql.ir.ops import Op

ROOT = Path(daggersql.__file__).parent
WRITTEN_BY_EMIT = {Op.COLUMN, Op.CONSTANT, Op.BOUND, Op.VARIABLE, Op.FIELD, Op.CASE}
# What looks like a call of SQL and is none: casts, types, units of time.
NO_FUNCTIONS = {"try_cast", "decimal", "timestampadd", "timestampdiff"}


# Operators that no query of the golden files has.
FURTHER = (
    "SELECT __offset * 2 AS a, event_timestamp.nanos AS b, EXTRACT(ISODOW FROM event_timestamp) AS c"
    " FROM bookings",
    "SELECT k.seconds AS s, k.nanos AS n FROM every",
    "SELECT k.seconds AS s, k.nanos AS n FROM every GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), k",
    "SELECT b.event_timestamp.seconds AS s, b.event_timestamp.nanos AS n FROM bookings b JOIN payments p"
    " ON b.order_number = p.order_id AND p.rowtime BETWEEN b.rowtime AND b.rowtime + INTERVAL '5' MINUTE",
    "SELECT m.KEY AS k FROM bookings, UNNEST(metadata) AS m",
    "SELECT LAST_VALUE(fare) AS a, FeaturesWithType('k', fare, 'LongType') AS f FROM bookings"
    " GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)",
)


def _nodes(*folders: str) -> Iterator[tuple[str, ast.AST]]:
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                yield f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node


def _emitted() -> set[str]:
    """The functions of Spark that the queries of the golden files call, and those above."""
    found = set()
    further = [kept(plan) for sql in FURTHER if (plan := check(sql, [*tables(), *TABLES]).plan)]
    assert len(further) == len(FURTHER)
    for plan in (*plans().values(), *calls().values(), *further):
        texts = [plan["spark_sql"], *([plan["sums"]["spark_sql"]] if plan["sums"] else [])]
        ours = {*plan["functions"], *((plan["sums"] or {}).get("functions", []))}
        names = {name for text in texts for name in called.names(text)}
        found |= {name for name in names if name.partition("_")[0] not in ours}
    return found - NO_FUNCTIONS - {called.RAISES}


@pytest.fixture(scope="module")
def emitted() -> set[str]:
    return _emitted()


def test_no_stage_but_emit_reads_how_spark_is_told() -> None:
    read = [
        span
        for span, node in _nodes("syntax", "ir", "operators", "analyse", "lints")
        if isinstance(node, ast.Attribute) and node.attr in ("template", "told", "separator", "spelt")
    ]

    assert read == []


def test_no_stage_but_emit_has_templates_of_sql() -> None:
    """A hole for an argument, or a name in a name."""
    nodes = list(_nodes("ir", "operators", "analyse", "lints"))
    prose = {id(node.value) for _, node in nodes if isinstance(node, ast.Expr)}
    found = [
        span
        for span, node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        if re.search(r"\{\d\}|`\.`", node.value)
    ]

    assert found == []


def test_no_decision_goes_by_the_text_of_sql() -> None:
    """Texts that emit wrote are joined to others: none is compared, searched or cut."""
    asked = [
        span
        for span, node in _nodes("emit", "lints", "analyse")
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("startswith", "endswith", "partition", "find", "count", "search", "match")
            and isinstance(node.func.value, ast.Call)
            and getattr(node.func.value.func, "id", "") in ("sql", "column", "spelling")
        )
        or (
            isinstance(node, ast.Compare)
            and any(
                getattr(getattr(each, "func", None), "id", "") == "sql"
                for each in [node.left, *node.comparators]
            )
        )
    ]

    assert asked == []


def test_every_operator_has_one_way_to_be_told() -> None:
    assert set(TEMPLATES) == set(Op) - WRITTEN_BY_EMIT
    assert set(BOUNDS) == {"START", "END", "ROWTIME"}


def test_whatever_is_emitted_may_be_called(emitted: set[str]) -> None:
    assert emitted - called.functions() == set()


def test_whatever_may_be_called_is_needed(emitted: set[str]) -> None:
    """By a function that an analyst can call, or by a query of the golden files."""
    signatures = [
        signature.form for function in registry.all_functions() for signature in function.signatures
    ]
    templates = [TEMPLATES[form] if isinstance(form, Op) else form.template for form in signatures]
    needed = {name for template in templates for name in called.names(template)}

    assert called.functions() - needed - emitted == set()
    assert called.AROUND_EXPRESSIONS - emitted == set()


def test_nothing_that_reaches_out_of_a_query_may_be_called() -> None:
    """The list is derived from templates: a careless one must not widen it."""
    never = {"reflect", "try_reflect", "java_method", "input_file_name", "current_user", "version", "range"}
    never |= {"read_files", "stack", "sequence", "xpath_string", "assert_true", "raise_error", "parse_url"}

    assert never & called.functions() == set()
    assert {"count", "concat", "window"} <= called.functions()
