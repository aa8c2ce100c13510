"""Queries on a stream with a sensitive field, and what of their rows is answered to who has no grant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daggers.v1 import events_pb2, spec_pb2
from hypothesis import strategies as st
from tests.conformance.shop import END, TIMED, WINDOW, tables

from access import Principal, sensitive
from access.sensitive import RowOrigins
from api_gateway.auth.masking import mask_of
from daggerspec.columns import Column
from daggersql import Plan, check
from eventlog.testing import given as folded
from fleet import Fleet
from runtime.encode.readback import from_columns

BOB = Principal("user:bob")
SPEC = spec_pb2.DaggerSpec(
    streams=[spec_pb2.StreamInput(table=name, stream=name) for name in ("orders", "refunds")]
)
VALUES = ("a", "ab", "b", "a@b.c", "")


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


@dataclass(frozen=True)
class Judged:
    """A query as the gateway judges it for BOB."""

    plan: Plan
    hidden: tuple[Column, ...]
    """Columns that are masked."""
    is_refused: bool
    """Whether a sensitive field chooses its rows."""

    def answer(self, rows: Iterable[Mapping[str, Any]]) -> list[bytes]:
        """Rows of columns as they are answered, masked, in no order."""
        answered = [from_columns(row).to_proto() for row in rows]
        mask_of(self.plan.columns, self.hidden).rows(answered)
        return sorted(row.SerializeToString(deterministic=True) for row in answered)


def judge(sql: str) -> Judged:
    """Check a query, and what of it the gateway would show."""
    plan, world = check(sql, tables()).plan, fleet()
    assert plan is not None, sql
    streams = sensitive.unseen(BOB, SPEC, world)
    made = RowOrigins(plan.columns, plan.origins, plan.places, plan.influences)
    refused = any(True for _ in sensitive.check_deciding(BOB, made, streams, world))
    return Judged(plan, sensitive.masked_columns(made, streams), refused)
