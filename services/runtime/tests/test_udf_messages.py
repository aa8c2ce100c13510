"""SelectFields, Filters and CondEq: over repeated messages, and over encoded ones."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from services.runtime.tests.sessions import answer, corpus_files, invalid_input, spark_session
from tests.conformance.corpus import cases, tables
from tests.conformance.values import agrees, plain, refusal

from daggersql import CheckResult, check
from runtime.decode.decoder import message_pool
from runtime.functions import arrayoperate, condeq, filters, mapget, selectfields
from runtime.values import messages

NAMES = ("SelectFields", "Filters", "CondEq")
CASES = {case["id"]: case for case in cases("udf_cases") if case["udf"] in NAMES}
BOOKING = "corpus.v1.BookingLog"


@pytest.fixture(scope="module")
def pool() -> DescriptorPool:
    return message_pool(corpus_files())


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_session("selectfields", "filters", "jsonquery") as started:
        yield started


def encoded(pool: DescriptorPool, **fields: Any) -> bytes:
    """A booking as it stands in a topic."""
    message = GetMessageClass(pool.FindMessageTypeByName(BOOKING))()
    return ParseDict(_as_json(fields), message).SerializeToString()


def of(udf: str, *, refused: bool) -> list[str]:
    return sorted(
        name
        for name, case in CASES.items()
        if case["udf"] == udf and (refusal(case["expected"]) is not None) == refused
    )


def literal(value: Any) -> str:
    """A constant of a case in SQL."""
    match value:
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


def condition(raw: Any) -> str:
    path, value = raw
    return f"CondEq({literal(path)}, {literal(plain(value))})"


def history(*items: bytes | None, name: str | None = BOOKING) -> dict[str, Any]:
    return {"proto_data": list(items), "input_class_name": name}


def ask(session: SparkSession, call: str, *records: dict[str, Any]) -> list[Any]:
    rows = answer(session, f"SELECT {call} AS v FROM booking_history", records, "booking_history")
    return [row.v for row in rows]


def checked(call: str, table: str = "booking_history") -> CheckResult:
    return check(f"SELECT {call} AS v FROM {table}", tables(table))


@pytest.mark.parametrize("name", of("SelectFields", refused=False))
def test_selectfields_gives_what_the_corpus_says_in_both_forms(
    name: str, session: SparkSession, pool: DescriptorPool
) -> None:
    items, kind, path = map(plain, CASES[name]["args"])
    record = {"proto_data": items}
    call = f"SelectFields(proto_data, {literal(kind)}, {literal(path)})"

    assert agrees(CASES[name]["expected"], selectfields.reference(items, kind, path, pool=pool))
    assert agrees(CASES[name]["expected"], ask(session, call, record)[0])


@pytest.mark.parametrize("name", of("Filters", refused=False))
def test_filters_gives_what_the_corpus_says_in_both_forms(
    name: str, session: SparkSession, pool: DescriptorPool
) -> None:
    raw, kind, *conditions = CASES[name]["args"]
    items, pairs = plain(raw), [each["$cond_eq"] for each in conditions]
    listed = ", ".join(map(condition, pairs))
    found = ask(session, f"Filters(proto_data, '{kind}', {listed})", {"proto_data": items})[0]
    plainly = filters.reference(items, kind, *((path, plain(value)) for path, value in pairs), pool=pool)
    expected = CASES[name]["expected"]
    wanted = None if expected is None else [encoded(pool, **each) for each in expected]

    assert plainly == wanted
    assert (None if found is None else [bytes(each) for each in found]) == wanted


@pytest.mark.parametrize("name", of("CondEq", refused=False))
def test_condeq_gives_what_the_corpus_says_in_both_forms(
    name: str, session: SparkSession, pool: DescriptorPool
) -> None:
    case = CASES[name]
    path, value = map(plain, case["args"])
    item = plain(case["given"]["message"])
    call = f"CARDINALITY(Filters(proto_data, '{BOOKING}', {condition(case['args'])})) = 1"

    assert condeq.reference(path, value, message=item, kind=BOOKING, pool=pool) == case["expected"]
    assert ask(session, call, history(item)) == [case["expected"]]


@pytest.mark.parametrize("name", of("SelectFields", refused=True) + of("CondEq", refused=True))
def test_what_the_corpus_refuses_is_refused(name: str) -> None:
    case = CASES[name]
    if case["udf"] == "CondEq":
        call = f"Filters(proto_data, '{BOOKING}', {condition(case['args'])})"
    else:
        call = f"SelectFields(proto_data, {', '.join(map(literal, case['args'][1:]))})"
    found = checked(call)

    assert refusal(case["expected"]) in {finding.code for finding in found.findings}


FIELDS = {
    "order_number": st.text(max_size=5),
    "fare": st.floats() | st.sampled_from([0.0, -0.0]),
    "tip": st.floats(width=32),
    "discount": st.integers(-(2**63), 2**63 - 1),
    "surge": st.booleans(),
    "status": st.sampled_from(["BOOKING_UNKNOWN", "COMPLETED", "CANCELLED"]),
    "promo_codes": st.lists(st.text(max_size=3), max_size=3),
    "ratings": st.lists(st.integers(-5, 5), max_size=3),
    "metadata": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
}
PATHS = [*FIELDS, "customer.id", "customer.signup_time.seconds", "event_timestamp.nanos", "pickup.accuracy_m"]


@given(st.lists(st.none() | st.fixed_dictionaries({}, optional=FIELDS), max_size=6), st.sampled_from(PATHS))
@settings(max_examples=2 * settings.default.max_examples)
def test_both_forms_read_the_same_out_of_any_message(
    pool: DescriptorPool, rows: list[dict[str, Any] | None], path: str
) -> None:
    items = [None if row is None else encoded(pool, **row) for row in rows]
    files = corpus_files().SerializeToString()
    texts, bad = messages.lists(files, pa.array([items], pa.list_(pa.binary())), [BOOKING], [path])
    found = json.loads(texts[0] or "")
    expected = selectfields.reference(items, BOOKING, path, pool=pool)

    assert bad == 0
    assert json.dumps(found, sort_keys=True) == json.dumps(_as_json(expected), sort_keys=True)


def _as_json(value: Any) -> Any:
    """Numbers that JSON has no form of are text."""
    match value:
        case list():
            return [_as_json(each) for each in value]
        case dict():
            return {key: _as_json(value[key]) for key in sorted(value)}
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


def test_what_a_message_holds_has_its_own_type_in_spark(session: SparkSession, pool: DescriptorPool) -> None:
    item = encoded(
        pool,
        fare=float("nan"),
        event_timestamp="2024-02-29T12:00:00.123456Z",
        customer={"id": "c", "signup_time": "2024-01-01T00:00:00Z"},
        raw_payload="AQI=",
        event_ids=[2**60],
    )
    paths = ("fare", "event_timestamp", "customer", "raw_payload", "event_ids", "dropoff", "dropoff.latitude")
    calls = [f"SelectFields(proto_data, '{BOOKING}', '{path}')" for path in paths]
    found: dict[str, Any] = {
        path: ask(session, call, history(item))[0][0] for path, call in zip(paths, calls, strict=True)
    }

    assert str(found["fare"]) == "nan"
    assert found["event_timestamp"].isoformat() == "2024-02-29T12:00:00.123456"
    assert isinstance(found["customer"], Row)
    assert (found["customer"].id, found["customer"].name) == ("c", "")
    assert bytes(found["raw_payload"]) == b"\x01\x02"
    assert (found["event_ids"], found["dropoff"], found["dropoff.latitude"]) == ([2**60], None, 0.0)


def test_bytes_that_are_no_such_message_give_null_and_are_counted(
    session: SparkSession, pool: DescriptorPool
) -> None:
    good, before = encoded(pool, order_number="a"), invalid_input(session, "selectfields")
    record = history(good, b"\xff\xff", None, b"")
    selected = ask(session, f"SelectFields(proto_data, '{BOOKING}', 'order_number')", record)

    assert selected == [["a", None, None, ""]]
    assert invalid_input(session, "selectfields") == before + 1
    assert ask(session, f"Filters(proto_data, '{BOOKING}', CondEq('surge', FALSE))", record) == [[good, b""]]


def test_without_conditions_every_message_stays_and_what_is_none_does_not(
    session: SparkSession, pool: DescriptorPool
) -> None:
    items = [encoded(pool, order_number="a"), b"\xff\xff", None, b"", encoded(pool, customer={"id": "c"})]
    before = invalid_input(session, "selectfields")
    records = [history(*items), history(*items, name="no.such.Type"), history(*items, name=None)]
    constant = ask(session, f"Filters(proto_data, '{BOOKING}')", *records)
    column = ask(session, "Filters(proto_data, input_class_name)", *records)
    plainly = filters.reference(items, BOOKING, pool=pool)
    call = "SelectFields(Filters(proto_data, input_class_name), 'order_number')"
    routes = [{"start": None, "end": None, "distance_km": 2.5}, None]
    kept = answer(
        session,
        "SELECT Filters(routes, 'corpus.v1.Route') AS v FROM bookings",
        [{"routes": routes}],
        "bookings",
    )

    assert plainly == [items[0], items[3], items[4]]
    assert [list(map(bytes, each)) for each in constant] == [plainly] * 3
    assert [None if each is None else list(map(bytes, each)) for each in column] == [plainly, None, None]
    assert invalid_input(session, "selectfields") == before + 5
    assert ask(session, call, records[0]) == [["a", "", ""]]
    assert [each.distance_km for each in kept[0].v] == [2.5]


def test_what_filters_gives_is_known_for_what_it_is_in_an_outer_query(
    session: SparkSession, pool: DescriptorPool
) -> None:
    items = [encoded(pool, order_number="a", customer={"id": "c"}), encoded(pool, surge=True)]
    inner = f"SELECT Filters(proto_data, '{BOOKING}') AS kept FROM booking_history"
    fields = "SelectFields(kept, 'order_number') AS n, SelectFields(kept, 'customer') AS c"
    sql = f"SELECT {fields} FROM ({inner}) AS t"
    (row,) = answer(session, sql, [history(*items)], "booking_history")

    assert (row.n, [each and each.id for each in row.c]) == (["a", ""], ["c", None])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SelectFields(kept, 'fare') AS v FROM ({inner} UNION ALL {inner}) AS t",
        "SELECT SelectFields(LAST_VALUE(kept), 'fare') AS v FROM ({inner}) AS t"
        " GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE)",
        "SELECT SelectFields(CASE WHEN customer_id = 'a' THEN kept END, 'fare') AS v FROM ({inner}) AS t",
    ],
)
def test_what_filters_gives_keeps_its_type_through_unions_groups_and_cases(sql: str) -> None:
    inner = f"SELECT Filters(proto_data, '{BOOKING}') AS kept, customer_id, rowtime FROM booking_history"

    assert check(sql.format(inner=inner), tables("booking_history")).plan is not None


def test_a_condition_sees_every_nanosecond(session: SparkSession, pool: DescriptorPool) -> None:
    items = [
        encoded(pool, event_timestamp=f"2024-02-29T12:00:00.{nanos:09}Z")
        for nanos in (123_456_789, 123_456_000)
    ]
    pairs = [("event_timestamp.nanos", 123_456_789), ("event_timestamp.seconds", 1_709_208_000)]
    listed = ", ".join(f"CondEq('{path}', {value})" for path, value in pairs)
    kept = ask(session, f"Filters(proto_data, '{BOOKING}', {listed})", history(*items))[0]

    assert filters.reference(items, BOOKING, *pairs, pool=pool) == items[:1]
    assert list(map(bytes, kept)) == items[:1]


def test_a_condition_takes_what_a_function_gives(session: SparkSession, pool: DescriptorPool) -> None:
    items = [encoded(pool, cancel_reason_id=7), encoded(pool, cancel_reason_id=8)]
    condition = "CondEq('cancel_reason_id', CAST(JsonQuery(customer_id, '$.id') AS INT))"
    call = f"Filters(proto_data, '{BOOKING}', {condition})"
    kept = ask(session, call, *(history(*items) | {"customer_id": text} for text in ('{"id": 8}', "{}")))

    assert [list(map(bytes, each)) for each in kept] == [items[1:], []]


def test_lists_of_messages_are_looked_up_and_told_apart(session: SparkSession) -> None:
    items = [
        {"id": "a", "quantity": 3, "name": "tea", "price": 1.5},
        {"id": "b", "quantity": 4, "name": "", "price": 2.0},
        {"id": "a", "quantity": 5, "name": "tea", "price": 1.5},
    ]
    records = [{"items": [*items, items[0]], "order_number": key} for key in ("a", "b", "c", None)]
    records.append({"items": None, "order_number": "a"})
    sql = (
        "SELECT MapGet(items, order_number) AS q, ArrayOperate(items, 'distinct', 'other') AS d FROM bookings"
    )
    rows = answer(session, sql, records, "bookings")
    distinct = [
        record and arrayoperate.reference(record["items"], "distinct", "other") for record in records[:1]
    ]

    assert [row.q for row in rows] == [
        mapget.reference(record["items"], record["order_number"]) for record in records
    ]
    assert [row.q for row in rows] == [3, 4, None, None, None]
    assert [each.asDict() for each in rows[0].d] == distinct[0] == items


def test_a_type_that_comes_with_the_record_gives_text(session: SparkSession, pool: DescriptorPool) -> None:
    items = [
        encoded(pool, fare=12.5, status="COMPLETED", promo_codes=["x"], cancel_reason_id=7),
        encoded(pool, order_number='"'),
    ]
    before = invalid_input(session, "selectfields")
    records = [history(*items), history(*items, name="no.such.Type"), history(*items, name=None)]
    fares = ask(session, "SelectFields(proto_data, input_class_name, 'fare')", *records)
    kept = ask(session, "Filters(proto_data, input_class_name, CondEq('cancel_reason_id', 7.0))", *records)
    codes = ask(
        session,
        "SelectFields(Filters(proto_data, input_class_name, CondEq('status', 'COMPLETED')), 'promo_codes')",
        records[0],
    )
    large = [encoded(pool, discount=2**53 + more, fare=12.5) for more in (0, 1)]
    call = f"Filters(proto_data, input_class_name, CondEq('discount', {2**53 + 1}), CondEq('fare', 12.50))"
    (exact,) = ask(session, call, history(*large))

    assert fares == [["12.5", "0.0"], None, None]
    assert [None if each is None else list(map(bytes, each)) for each in kept] == [items[:1], None, None]
    assert codes == [['["x"]']]
    assert list(map(bytes, exact)) == large[1:]
    assert invalid_input(session, "selectfields") == before + 2


def test_a_repeated_message_is_read_natively_and_only_where_it_is_needed(session: SparkSession) -> None:
    items = [
        {"id": "a", "quantity": 3, "name": "tea", "price": 1.5},
        {"id": "b", "quantity": 4, "name": "", "price": 2.0},
    ]
    prices = "SelectFields(items, 'corpus.v1.Item', 'price')"
    threes = (
        "Filters(items, 'corpus.v1.Item', CondEq('quantity', CAST(3 AS BIGINT)), CondEq('id', order_number))"
    )
    sql = f"SELECT {prices} AS p, SelectFields({threes}, 'name') AS n, {threes} AS kept FROM bookings"
    (row,) = answer(session, sql, [{"items": items, "order_number": "a"}], "bookings")
    reads = check(f"SELECT {prices} AS p FROM bookings", tables("bookings")).plan

    assert (row.p, row.n, [each.id for each in row.kept]) == ([1.5, 2.0], ["tea"], ["a"])
    assert reads is not None
    assert "items.price" in reads.reads[0].paths


def test_defaults_are_read_through_messages_that_are_not_set(session: SparkSession) -> None:
    routes = [{"start": None, "end": None, "distance_km": 2.5}, None]
    call = "SelectFields(routes, 'corpus.v1.Route', 'start.latitude')"
    (row,) = answer(session, f"SELECT {call} AS v FROM bookings", [{"routes": _narrow(routes)}], "bookings")

    assert row.v == [0.0, None]


def _narrow(routes: list[Any]) -> list[Any]:
    """As decoded: only the path that is read."""
    return [None if route is None else {"start": route["start"]} for route in routes]


@pytest.mark.parametrize(
    ("call", "code", "suggestion"),
    [
        ("SelectFields(proto_data, 'corpus.v1.BookingLog', 'items.price')", "UNKNOWN_FIELD", None),
        (
            "SelectFields(proto_data, 'corpus.v1.BookingLg', 'fare')",
            "UNKNOWN_MESSAGE",
            "corpus.v1.BookingLog",
        ),
        ("SelectFields(proto_data, 'corpus.v1.BookingLog', customer_id)", "INVALID_ARGUMENT", None),
        ("SelectFields(proto_data, 'fare')", "INVALID_ARGUMENT", None),
        ("SelectFields(customer_id, 'corpus.v1.BookingLog', 'fare')", "TYPE_MISMATCH", None),
        ("Filters(proto_data, 'corpus.v1.BookingLog', 'fare')", "TYPE_MISMATCH", None),
        ("Filters(proto_data, 'corpus.v1.BookingLg')", "UNKNOWN_MESSAGE", "corpus.v1.BookingLog"),
        ("Filters(proto_data)", "WRONG_ARGUMENT_COUNT", None),
        ("Filters(proto_data, 'corpus.v1.BookingLog', CondEq('far', 1))", "UNKNOWN_FIELD", "fare"),
        ("CondEq('fare', 1)", "UNSUPPORTED_TYPE", None),
        ("COALESCE(CondEq('fare', 1), customer_id)", "TYPE_MISMATCH", None),
    ],
)
def test_a_mistake_is_said_where_it_is(call: str, code: str, suggestion: str | None) -> None:
    found = [(finding.code, finding.suggestion) for finding in checked(call).findings]

    assert (code, suggestion) in found


@pytest.mark.parametrize("value", ["'COMPLETD'", "7"])
def test_a_condition_that_is_never_true_is_warned_of(value: str) -> None:
    found = checked(f"Filters(proto_data, '{BOOKING}', CondEq('status', {value}))")

    assert found.plan is not None
    assert [finding.code for finding in found.findings][:1] in (["UNKNOWN_ENUM_VALUE"], ["TYPE_MISMATCH"])


def test_messages_of_another_type_are_called_by_their_own() -> None:
    found = checked("SelectFields(items, 'corpus.v1.Route', 'distance_km')", "bookings").findings

    assert [(each.code, each.suggestion) for each in found] == [("INVALID_ARGUMENT", "corpus.v1.Item")]
