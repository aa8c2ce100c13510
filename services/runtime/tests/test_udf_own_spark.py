"""Functions in a real Spark, called from the dialect: the corpus as columns and as constants, native forms
beside their references, every position of a query, and bad values counted."""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from tests.conformance import calls
from tests.conformance.corpus import cases, public, tables
from tests.conformance.engine import Engine, engine
from tests.conformance.functions import by_spark
from tests.conformance.values import agrees, refusal

from daggersql import Severity, Table, check
from daggersql.functions import registry
from runtime import functions
from runtime.decode.columns import arrow_schema, select

NAMES = (
    "S2Id", "S2AreaInKm2", "Distance", "GeoHash", "StartOfMonth", "EndOfMonth", "StartOfWeek", "EndOfWeek",
    "TimeInDate", "FormatTimeInZone", "TimestampFromUnix", "Split", "ByteToString", "JsonQuery", "JsonUpdate",
    "JsonDelete", "ListContains", "MapGet", "ArrayOperate", "ArrayAggregate", "ElementAt", "DistinctCount",
)  # fmt: skip
# Those that name streams and their messages are below.
CASES = [case for case in cases("udf_cases") if "tables" not in case.get("given", {})]
AT = datetime(2024, 2, 29, 12, tzinfo=UTC)
_Field = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def spark() -> Iterator[Engine]:
    with engine() as started:
        yield started


@pytest.mark.parametrize("name", NAMES)
def test_what_the_corpus_says_is_what_a_query_gets(name: str, spark: Engine) -> None:
    wrong = {case["id"]: by_spark(case, public(), spark) for case in CASES if case["udf"] == name}

    assert {case: what for case, what in wrong.items() if what} == {}
    assert wrong


def test_calls_with_constants_only_give_what_the_corpus_says(spark: Engine) -> None:
    chosen = {}
    for case in CASES:
        texts = [calls.literal(each) for each in case["args"]] if case["kind"] == "scalar" else [None]
        if case["udf"] in NAMES and None not in texts and refusal(case["expected"]) is None:
            chosen[f"{case['udf']}({', '.join(map(str, texts))})"] = case
    listed = ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(chosen))
    found = answers(spark, stream(), f"SELECT {listed} FROM rows", [{}])[0]
    wrong = {
        sql: found[f"c{at}"]
        for at, (sql, case) in enumerate(chosen.items())
        if not agrees(case["expected"], found[f"c{at}"], case.get("compare", "exact"), case.get("tol", 1e-9))
    }

    assert wrong == {}
    assert len(chosen) > 100


def stream(**kinds: tuple[int, bool]) -> Table:
    """A stream `rows` of optional fields: Protobuf type and whether it is repeated, by name."""
    message = descriptor_pb2.DescriptorProto(name="Row")
    names = {"event_time": (_Field.TYPE_MESSAGE, False), **kinds}
    for number, (name, (kind, repeated)) in enumerate(names.items(), 1):
        label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if name == "event_time":
            field.type_name = ".google.protobuf.Timestamp"
        elif not repeated:
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="row.proto", package="t", syntax="proto3", message_type=[message],
        dependency=[timestamp_pb2.DESCRIPTOR.name],
    )  # fmt: skip
    pool.AddSerializedFile(file.SerializeToString())
    return Table("rows", pool.FindMessageTypeByName("t.Row"), "event_time")


def answers(spark: Engine, table: Table, sql: str, rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the query gives over these rows of the stream."""
    checked = check(sql, [table])
    errors = [found for found in checked.findings if found.severity is Severity.ERROR]
    assert errors == []
    assert checked.plan is not None
    return spark.answer(checked.plan, {"rows": view(table, rows)}).to_pylist()


def view(table: Table, rows: list[Mapping[str, Any]]) -> pa.Table:
    schema = arrow_schema(select(table.message, [str(field.name) for field in table.message.fields]))
    for name, kind in (
        ("rowtime", pa.timestamp("us", "UTC")), ("__topic", pa.string()), ("__partition", pa.int32()),
        ("__offset", pa.int64()), ("__timestamp", pa.timestamp("us", "UTC")),
    ):  # fmt: skip
        schema = schema.append(pa.field(name, kind))
    meta = {"rowtime": AT, "__topic": "t", "__partition": 0, "__timestamp": AT}
    return pa.Table.from_pylist(
        [{**row, **meta, "__offset": at} for at, row in enumerate(rows)], schema=schema
    )


TEXTS = ["", ",", "a", "b", "a,b", ",a", "a,,b,,", "日本", "e\u0301", "é", ",,,", " ", "aXbxc", "1,2"]
DICE = random.Random(6)
LISTS: list[list[Any]] = [[DICE.choice([0, 1, 2, -5, 7, 2**62]) for _ in range(size)] for size in range(12)]
DOUBLES = [
    [DICE.choice([0.5, -1.5, 2.0, 1e9, math.nan, math.inf]) for _ in range(size)] for size in range(12)
]
WORDS = [[DICE.choice(TEXTS) for _ in range(size)] for size in range(12)]
BYTES = [DICE.randbytes(size % 9) for size in range(300)] + ["\U0001f600".encode(), b"\xed\xa0\x80"]
# What makes one value of any list, and of numbers.
STEPS = [
    "count", "findFirst", "FINDANY", "Distinct.Count", "sorted.toArray", " parallel . unordered . findfirst",
    "sequential.count.",
]  # fmt: skip
NUMERIC_STEPS = [
    "sum", "average", "min", "max", "distinct.sum", "sorted.findFirst", "sort.distinct.max",
    "boxed.findFirst", "boxed.distinct.count", "asDoubleStream.distinct.sum", "AsDoubleStream.findAny",
]  # fmt: skip
OPERATIONS = ["distinct", "SORTED", "sorted.distinct", "boxed.sort", "parallel", "asDoubleStream.distinct"]


def same(wanted: Any, found: Any) -> bool:
    """Whether both are equal, NaN included; sums may differ in the last digits."""
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(wanted, found, rel_tol=1e-12) or (math.isnan(wanted) and math.isnan(found))
    return bool(wanted == found)


def native(
    calls_: Mapping[str, Callable[[Mapping[str, Any]], Any]], spark: Engine, table: Table, rows: Any
) -> None:
    """Every call gives over all rows what its reference gives."""
    listed = ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(calls_))
    found = answers(spark, table, f"SELECT {listed} FROM rows", rows)
    for at, (sql, reference) in enumerate(calls_.items()):
        differing = [
            (row, got[f"c{at}"], reference(row))
            for row, got in zip(rows, found, strict=True)
            if not same(reference(row), got[f"c{at}"])
        ]

        assert differing == [], sql


def test_native_functions_of_text_and_bytes_do_what_their_references_do(spark: Engine) -> None:
    table = stream(t=(_Field.TYPE_STRING, False), b=(_Field.TYPE_BYTES, False))
    split, text = functions.load("split").reference, functions.load("bytetostring").reference
    patterns = [",", "", "a", "[,b]", "(?i)x", "\\s", "日", ",+", "b?"]
    wanted: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        f"Split(t, '{pattern}')": lambda row, pattern=pattern: split(row["t"], pattern)
        for pattern in patterns
    }
    wanted["ByteToString(b)"] = lambda row: text(row["b"])
    rows = [{"t": DICE.choice([*TEXTS, None]), "b": data} for data in [*BYTES, None]]

    native(wanted, spark, table, rows)


def test_native_functions_of_lists_do_what_their_references_do(spark: Engine) -> None:
    table = stream(
        i=(_Field.TYPE_INT64, True), d=(_Field.TYPE_DOUBLE, True), w=(_Field.TYPE_STRING, True),
        n=(_Field.TYPE_INT32, False), t=(_Field.TYPE_STRING, False),
    )  # fmt: skip
    operate, aggregate = functions.load("arrayoperate").reference, functions.load("arrayaggregate").reference
    contains, element = functions.load("listcontains").reference, functions.load("elementat").reference
    wanted: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
    kinds = (
        ("i", "long"), ("i", "Integer"), ("i", "BIGINT"), ("d", "double"), ("d", "Float"), ("i", "double"),
        ("i", "Other"), ("w", "other"),
    )  # fmt: skip
    for column, kind in kinds:
        numbers = kind.lower() != "other"
        for steps in OPERATIONS if numbers else OPERATIONS[:3]:
            wanted[f"ArrayOperate({column}, '{steps}', '{kind}')"] = (
                lambda row, column=column, steps=steps, kind=kind: operate(row[column], steps, kind)
            )
        for steps in [*STEPS, *NUMERIC_STEPS] if numbers else STEPS:
            wanted[f"ArrayAggregate({column}, '{steps}', '{kind}')"] = (
                lambda row, column=column, steps=steps, kind=kind: aggregate(row[column], steps, kind)
            )
    for column in "idw":
        wanted[f"ElementAt({column}, n)"] = lambda row, column=column: element(row[column], row["n"])
        wanted[f"ElementAt({column}, -2)"] = lambda row, column=column: element(row[column], -2)
    wanted["ListContains(w, t)"] = lambda row: contains(row["w"], row["t"])
    wanted["ListContains(i, n)"] = lambda row: contains(row["i"], row["n"])
    rows = [
        {
            "i": i,
            "d": d,
            "w": w,
            "n": DICE.choice([None, 0, 1, -1, 3, -4, 7]),
            "t": DICE.choice([*TEXTS, None]),
        }
        for i, d, w in [
            *zip(LISTS, DOUBLES, WORDS, strict=True),
            (None, None, None),
            ([2**63 - 1, 1], [], []),
        ]
    ]

    native(wanted, spark, table, rows)


ROUTES = [
    {
        "start": {"latitude": -6.17, "longitude": 106.82, "address": None, "accuracy_m": None},
        "distance_km": 21.5,
    },
    {"start": None, "distance_km": None},
]
ELEMENTS = {
    "ElementAt(routes, 'routes', 0, 'distance_km')": "21.5",
    "ElementAt(routes, 'routes', -2, 'distance_km', 'bookings')": "21.5",
    "ElementAt(routes, 'routes', 1, 'start.latitude')": None,
    "ElementAt(routes, 'routes', 9, 'distance_km')": None,
    "ElementAt(routes, 'routes', 0, 'start')": '{"latitude":-6.17,"longitude":106.82,"address":null,'
    '"accuracy_m":null}',
}


def test_an_element_of_repeated_messages_is_taken_by_its_path(spark: Engine) -> None:
    listed = ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(ELEMENTS))
    plan = check(f"SELECT {listed} FROM bookings", tables("bookings")).plan
    assert plan is not None
    table = tables("bookings")[0]
    paths = [path for path in plan.reads[0].paths if not path.startswith("__")]
    schema = arrow_schema(select(table.message, paths))
    row = {
        "routes": ROUTES,
        "rowtime": AT,
        "__topic": "t",
        "__partition": 0,
        "__offset": 0,
        "__timestamp": AT,
    }
    for field in view(stream(), []).schema:
        schema = schema if field.name == "event_time" else schema.append(field)
    found = spark.answer(plan, {"bookings": pa.Table.from_pylist([row], schema=schema)}).to_pylist()[0]

    assert paths == ["routes.distance_km", "routes.start"]
    assert [found[f"c{at}"] for at in range(len(ELEMENTS))] == list(ELEMENTS.values())


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("ElementAt(routes, 'invalid', 0, 'distance_km')", "UNKNOWN_FIELD"),
        ("ElementAt(routes, 'routes', 0, 'start.invalid')", "UNKNOWN_FIELD"),
        ("ElementAt(routes, 'routes', 0, 'distance_km', 'nope')", "UNKNOWN_TABLE"),
        ("ElementAt(routes, 'routes', 0, order_number)", "INVALID_ARGUMENT"),
        ("JsonQuery(order_number, order_number)", "INVALID_ARGUMENT"),
        ("JsonDelete(order_number, '$.length()')", "INVALID_JSON_PATH"),
        ("Split(order_number, order_number)", "INVALID_ARGUMENT"),
        ("Split(order_number, '(')", "INVALID_REGEX"),
        ("GeoHash(fare, fare, discount)", "INVALID_ARGUMENT"),
        ("FormatTimeInZone(rowtime, 'UTC', order_number)", "INVALID_ARGUMENT"),
        ("ArrayAggregate(promo_codes, 'distinct', 'other')", "UNSUPPORTED_OPERATION"),
        ("ArrayAggregate(promo_codes, 'sum', 'other')", "UNSUPPORTED_OPERATION"),
        ("ArrayAggregate(ratings, 'boxed.sum', 'int')", "UNSUPPORTED_OPERATION"),
        ("ArrayAggregate(ratings, 'count.count', 'int')", "UNSUPPORTED_OPERATION"),
        ("ArrayAggregate(fare_components, 'asLongStream.sum', 'double')", "TYPE_MISMATCH"),
        ("ArrayOperate(ratings, 'toArray', 'int')", "UNSUPPORTED_OPERATION"),
        ("ArrayOperate(ratings, 'summaryStatistics', 'int')", "UNSUPPORTED_OPERATION"),
        ("ArrayOperate(routes, 'sorted', 'other')", "TYPE_MISMATCH"),
        ("MapGet(promo_codes, 'a')", "TYPE_MISMATCH"),
        ("MapGet(items, discount)", "TYPE_MISMATCH"),
        ("ArrayOperate(promo_codes, 'distinct', order_number)", "INVALID_ARGUMENT"),
        ("ListContains(promo_codes, discount)", "TYPE_MISMATCH"),
        ("MapGet(metadata, discount)", "TYPE_MISMATCH"),
        ("TimeInDate(discount, 24, 0)", "INVALID_ARGUMENT"),
    ],
)
def test_a_call_that_can_never_work_is_refused_with_its_reason(call: str, code: str) -> None:
    found = check(f"SELECT {call} AS x FROM bookings", tables("bookings")).findings

    assert [finding.code for finding in found if finding.severity is Severity.ERROR] == [code]


EXAMPLES = {
    call: answer for each in registry.own() if each.doc for call, answer in each.doc.examples if not each.rows
}


def shown(value: Any) -> str:
    """A value as the function reference writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        case list():
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            return f"{{{', '.join(f'{name}: {shown(each)}' for name, each in value.items())}}}"
    return str(value)


def test_every_example_of_the_function_reference_gives_what_it_says(spark: Engine) -> None:
    aggregates = {each.name for each in registry.own() if each.aggregate}
    found = {}
    for grouped in (False, True):
        chosen = [call for call in EXAMPLES if (call.partition("(")[0] in aggregates) == grouped]
        listed = ", ".join(f"{call} AS c{at}" for at, call in enumerate(chosen))
        by = " GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR)" if grouped else ""
        row = answers(spark, stream(), f"SELECT {listed} FROM rows{by}", [{}])[0]
        found |= {call: shown(row[f"c{at}"]) for at, call in enumerate(chosen)}

    assert found == EXAMPLES


def test_functions_stand_wherever_a_value_may(spark: Engine) -> None:
    table = stream(t=(_Field.TYPE_INT64, False), j=(_Field.TYPE_STRING, False))
    rows = [{"t": 86_400 * day, "j": f'{{"a":{day % 2}}}'} for day in range(60)]
    found = answers(
        spark,
        table,
        "SELECT StartOfMonth(t, 'UTC') AS m, SUM(CAST(JsonQuery(j, '$.a') AS INT)) AS odd, "
        "GeoHash(AVG(CAST(t AS DOUBLE)) / 1e8, 0, 1) AS g, MAX(Distance(0, 0, 0, t + 1)) > 0 AS far "
        "FROM rows WHERE JsonQuery(j, '$.a') IS NOT NULL AND Split(j, ':')[1] = '{\"a\"' "
        "GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR), StartOfMonth(t, 'UTC') "
        "HAVING EndOfMonth(MAX(t), 'UTC') < 6000000",
        rows,
    )
    kept = sorted((row["m"], row["odd"], row["g"], row["far"]) for row in found)

    assert kept == [(0, 15, "s", True), (31 * 86_400, 14, "s", True)]


def test_bad_values_are_null_and_counted_once_for_each_row_that_has_one(spark: Engine) -> None:
    table = stream(
        x=(_Field.TYPE_DOUBLE, False), j=(_Field.TYPE_STRING, False), z=(_Field.TYPE_STRING, False)
    )
    rows = [
        {"x": 1.0, "j": "{}", "z": "UTC"},
        {"x": 91.0, "j": "{", "z": "Nowhere"},
        {"x": None, "j": None, "z": None},
    ]
    before = dict(spark.invalid_input())
    found = answers(
        spark,
        table,
        "SELECT S2Id(x, x, 1) AS s, JsonQuery(j, '$.a') AS q, JsonDelete(j, '$.a') AS d,"
        " EndOfWeek(0, z) AS e, TimestampFromUnix(9223372036854775807) AS t FROM rows",
        [*rows, *rows],
    )
    after = {name: count - before.get(name, 0) for name, count in spark.invalid_input().items()}

    assert [row["d"] for row in found] == ["{}", None, None] * 2
    assert {name: count for name, count in after.items() if count} == {
        "s2id": 2, "jsonquery": 2, "jsondelete": 2, "endofweek": 2, "timestampfromunix": 6,
    }  # fmt: skip
