"""Two data sets that differ in sensitive values alone give an ungranted caller the same bytes: over generated
queries, those that the gateway lets through, in a real Spark.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.engine import Engine, engine
from tests.conformance.records import decoded
from tests.conformance.shop import END, TIMED, WINDOW, tables

from access import Principal, sensitive
from access.sensitive import Made
from api_gateway.masking import mask_of
from daggersql import Plan, Role, check
from eventlog.testing import given as folded
from fleet import Fleet
from runtime.encode.json_text import KEY, VALUE, named, texts
from runtime.encode.readback import from_columns, from_json

pytestmark = pytest.mark.integration
START = datetime(2026, 1, 1, tzinfo=UTC)
BOB = Principal("user:bob")
SPEC = spec_pb2.DaggerSpec(
    streams=[{"table": "orders", "stream": "orders"}, {"table": "refunds", "stream": "refunds"}]
)
VALUES = ("a", "ab", "b", "a@b.c", "")
EXAMPLES = 50


@pytest.fixture(scope="module")
def spark() -> Iterator[Engine]:
    with engine() as started:
        yield started


def fleet() -> Fleet:
    """Orders have a sensitive field; refunds have the same values, and nothing is said of them."""
    made, meta = Fleet(), events_pb2.RequestMeta(actor="root")
    streams = [
        spec_pb2.Stream(name="orders", time_field="event_time", sensitive=["customer.email"]),
        spec_pb2.Stream(name="refunds", time_field="event_time"),
    ]
    for record in folded(*(events_pb2.StreamRegistered(meta=meta, stream=stream) for stream in streams)):
        made.apply(record)
    return made


def records(seed: int, emails: int) -> list[Message]:
    """Orders of a few minutes; `emails` seeds their addresses alone, some of which are absent."""
    chance, hidden = random.Random(seed), random.Random(emails)
    make, made = GetMessageClass(tables()[0].message), []
    for number in range(24):
        order: Any = make()
        order.event_time.FromDatetime(START + timedelta(seconds=10 * number))
        order.number, order.amount = chance.choice(VALUES), chance.choice((0.5, 1.0, 2.0))
        order.customer.city = chance.choice(VALUES)
        if email := hidden.choice((*VALUES, None)):
            order.customer.email = email
        for _ in range(chance.randrange(3)):
            order.items.add(name=chance.choice(VALUES), price=chance.choice((1.0, 2.0)))
        made.append(order)
    return made


# ---- Queries ----------------------------------------------------------------------------------------------

CLEAN, EMAIL = ("number", "customer.city"), "customer.email"


@st.composite
def value(draw: st.DrawFn, leaves: Sequence[str], depth: int = 2) -> str:
    """A text made of columns."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from(leaves))
    inner = value(leaves, depth - 1)
    match draw(st.integers(0, 4)):
        case 0:
            return f"UPPER({draw(inner)})"
        case 1:
            return f"SUBSTRING({draw(inner)}, 1, 1)"
        case 2:
            return f"COALESCE({draw(inner)}, {draw(inner)})"
        case 3:
            return f"({draw(inner)} || {draw(inner)})"
    return f"CASE WHEN {draw(condition(leaves))} THEN {draw(inner)} ELSE {draw(inner)} END"


@st.composite
def condition(draw: st.DrawFn, leaves: Sequence[str]) -> str:
    """A condition on columns."""
    left = draw(value(leaves, 1))
    right = draw(st.sampled_from(("= 'a'", "LIKE 'a%'", "IS NULL", "<> 'b'", "IN ('a', 'b')")))
    return f"{left} {right}"


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query; where it chooses rows it reads the sensitive field now and then, among its columns often."""
    prefix = draw(st.sampled_from(("", "o.")))
    shape = draw(st.sampled_from(("records", "unnested", "united", "grouped", "joined", "first")))
    if shape == "joined":
        prefix = "o."
    elif shape in ("grouped", "first"):
        prefix = ""
    clean = [f"{prefix}{column}" for column in CLEAN]
    seen = [*clean, f"{prefix}{EMAIL}"]
    chooses = draw(st.sampled_from([clean, seen]))
    where = f" WHERE {draw(condition(chooses))}" if draw(st.booleans()) else ""
    one, other = draw(value(seen)), draw(value(seen))
    stream = "orders o" if prefix else "orders"
    selected = f"SELECT {one} AS one, {other} AS tag_other"
    match shape:
        case "unnested":
            listed = draw(st.sampled_from([f"{prefix}items", f"ARRAY[{draw(value(chooses, 1))}, 'b']"]))
            named = "(name, price)" if listed.endswith("items") else "(name)"
            return f"{selected}, i.name AS name FROM {stream} CROSS JOIN UNNEST({listed}) AS i {named}{where}"
        case "united":
            inner = f"{selected} FROM {stream}{where} UNION ALL SELECT number, customer.email FROM refunds"
            outer = draw(st.sampled_from(("", " WHERE one = 'a'", " WHERE tag_other = 'a'")))
            return f"SELECT UPPER(one) AS one, tag_other FROM ({inner}) t{outer}"
        case "grouped":
            key, counted = draw(value(chooses, 1)), draw(value(chooses, 1))
            having = draw(st.sampled_from(("", " HAVING COUNT(1) > 1", f" HAVING MAX({counted}) > 'a'")))
            group = (
                f" GROUP BY {WINDOW}, {key}" if any(leaf in key for leaf in seen) else f" GROUP BY {WINDOW}"
            )
            return (
                f"SELECT COUNT({counted}) AS n, SUM(amount) AS total, {END} FROM orders{where}{group}{having}"
            )
        case "joined":
            left, right = draw(st.sampled_from(chooses)), draw(st.sampled_from(("number", "customer.city")))
            kind = draw(st.sampled_from(("JOIN", "LEFT JOIN")))
            return (
                f"{selected}, r.customer.email AS theirs FROM orders o {kind} refunds r ON {left} = r.{right}"
                " AND r.rowtime BETWEEN o.rowtime - INTERVAL '20' SECOND AND o.rowtime + INTERVAL '20' SECOND"
                f"{where}"
            )
        case "first":
            by, kept = draw(st.sampled_from(chooses)), draw(st.sampled_from(chooses))
            return (
                "SELECT kept, place, window_end AS window_timestamp FROM ("
                f"SELECT {kept} AS kept, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end"
                f" ORDER BY {by} DESC) AS place FROM {TIMED}{where}) t WHERE place <= 2"
            )
    return f"SELECT one, tag_other FROM ({selected} FROM {stream}{where}) t"


# ---- What an ungranted caller gets -------------------------------------------------------------------------


def told(spark: Engine, plan: Plan, emails: int, hidden: Sequence[str], *, computed: bool) -> list[bytes]:
    """Rows as they are answered, in no order: `computed` and masked, or as a preview has them."""
    views = {}
    for read in plan.reads:
        table = next(table for table in tables() if table.name == read.table)
        given_ = records(1, emails) if table.name == "orders" else records(2, 0)
        views[read.table] = decoded(table, read.paths, given_, read.table, 0)
    found = spark.answer(plan, views, hidden=() if computed else hidden)
    if not computed:
        assert all(found.column(name).null_count == len(found) for name in hidden)
    mask = mask_of(plan.columns, tuple(column for column in plan.columns if column.name in hidden))
    rows = [from_columns(from_json(text)).to_proto() for text in named(columns(plan, found))]
    mask.rows(rows)
    return sorted(row.SerializeToString(deterministic=True) for row in rows)


def columns(plan: Plan, found: pa.Table) -> list[tuple[str, pa.Array]]:
    """The visible columns as texts of JSON."""
    return [
        (
            column.name,
            texts(found.column(column.name).combine_chunks(), KEY if column.role is Role.TAG else VALUE),
        )
        for column in plan.columns
    ]


def test_accepted_queries_give_the_same_bytes_whatever_the_sensitive_values_are(spark: Engine) -> None:
    outcomes = Counter[str]()
    world = fleet()
    streams = sensitive.unseen(BOB, SPEC, world)

    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(queries())
    def run(sql: str) -> None:
        plan = check(sql, tables()).plan
        if plan is None:
            outcomes["wrong"] += 1
            return
        made = Made(plan.columns, plan.origins, plan.places, plan.influences)
        hidden = [column.name for column in sensitive.hidden(made, streams)]
        if [*sensitive.deciding(BOB, made, streams, world)]:
            outcomes["refused"] += 1
            if outcomes["tells"] < 3:  # and rightly so: some of these tell the values
                both = [told(spark, plan, emails, hidden, computed=True) for emails in (3, 4)]
                outcomes["tells"] += both[0] != both[1]
            return
        outcomes["masked" if hidden else "clean"] += 1
        both = [
            told(spark, plan, emails, hidden, computed=computed)
            for emails in (3, 4)
            for computed in ((True, False) if hidden else (True,))
        ]
        assert all(answer == both[0] for answer in both), sql

    run()

    assert outcomes["masked"] >= EXAMPLES // 5, outcomes
    assert outcomes["masked"] + outcomes["clean"] >= EXAMPLES // 3, outcomes
    assert outcomes["refused"] >= EXAMPLES // 10, outcomes
    assert outcomes["tells"] >= 2, outcomes
    assert outcomes["wrong"] <= EXAMPLES // 5, outcomes
