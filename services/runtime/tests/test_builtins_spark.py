"""Flink's functions in a real Spark mean what they mean in Flink; expected values are worked out by hand."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from tests.conformance import records
from tests.conformance.corpus import tables
from tests.conformance.engine import Engine, engine

from daggersql import check
from daggersql.functions.javaregexes import compile_pattern, matches

pytestmark = pytest.mark.integration

CALL = {
    "event_timestamp": "2024-02-29T12:34:56.789Z",
    "api_uri": "/v1/orders/42",
    "api_name": "orders",
    "user_agent": " app/1.2 ",
    "request_json": '{"cart": {"total": 12.5, "items": [{"sku": "A-1"}]},'
    ' "note": "{x", "none": null, "ok": true}',
    "request_id": "2024-03-31 01:30:00",
    "client_ip": "not a time",
    "http_status_code": 200,
    "latency_ms": 1.5,
    "bytes_out": 1_709_210_096,
}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


MEANINGS: dict[str, Any] = {
    # Times and their texts.
    "DATE_FORMAT(rowtime, 'yyyy/MM/dd HH:mm:ss.SSS')": "2024/02/29 12:34:56.789",
    "DATE_FORMAT(rowtime, 'EEE d MMM yy, h a')": "Thu 29 Feb 24, 12 PM",
    "DATE_FORMAT(rowtime, '''at'' HH')": "at 12",
    "DATE_FORMAT(request_id, 'HH:mm')": "01:30",
    "DATE_FORMAT(client_ip, 'HH:mm')": None,
    "TO_TIMESTAMP(request_id)": moment("2024-03-31 01:30:00"),
    "TO_TIMESTAMP('2024-01-02 03:04:05.678')": moment("2024-01-02 03:04:05.678"),
    "TO_TIMESTAMP('2024-01-02')": None,
    "TO_TIMESTAMP(client_ip)": None,
    "TO_TIMESTAMP('02.01.2024 03:04', 'dd.MM.yyyy HH:mm')": moment("2024-01-02 03:04"),
    "TO_TIMESTAMP('31.02.2024', 'dd.MM.yyyy')": None,
    "TO_TIMESTAMP_LTZ(bytes_out, 0)": moment("2024-02-29 12:34:56"),
    "TO_TIMESTAMP_LTZ(1709210096789, 3)": moment("2024-02-29 12:34:56.789"),
    "TO_TIMESTAMP_LTZ(9223372036854775807, 3)": None,
    "TO_DATE('2024-02-29')": date(2024, 2, 29),
    "TO_DATE(request_id)": date(2024, 3, 31),
    "TO_DATE('2023-02-29')": None,
    "TO_DATE('29/02/2024', 'dd/MM/yyyy')": date(2024, 2, 29),
    "UNIX_TIMESTAMP('1970-01-02 00:00:00')": 86400,
    "UNIX_TIMESTAMP('2 Jan', 'd MMM')": 86400,
    "UNIX_TIMESTAMP(client_ip)": None,
    "FROM_UNIXTIME(86400)": "1970-01-02 00:00:00",
    "FROM_UNIXTIME(bytes_out, 'yyyyMMdd')": "20240229",
    "CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')": "1969-12-31 16:00:00",
    "CONVERT_TZ(request_id, 'Asia/Jakarta', 'UTC')": "2024-03-30 18:30:00",
    "CONVERT_TZ(client_ip, 'UTC', 'Asia/Jakarta')": None,
    "TIMESTAMPDIFF(MINUTE, TIMESTAMP '2024-02-29 12:00:00', rowtime)": 34,
    # A day less a fraction of a second is no whole day.
    "TIMESTAMPDIFF(DAY, rowtime, TIMESTAMP '2024-02-28 12:34:57')": 0,
    "TIMESTAMPDIFF(DAY, rowtime, TIMESTAMP '2024-02-28 12:34:56')": -1,
    "TIMESTAMPDIFF(MONTH, DATE '2024-01-31', DATE '2024-03-01')": 1,
    "TIMESTAMPDIFF(SECOND, rowtime, CAST(NULL AS TIMESTAMP))": None,
    "TIMESTAMPADD(MONTH, 1, TIMESTAMP '2024-01-31 00:00:00')": moment("2024-02-29"),
    "TIMESTAMPADD(DAY, -1, rowtime)": moment("2024-02-28 12:34:56.789"),
    "TIMESTAMPADD(YEAR, 2000000000, rowtime)": None,
    "rowtime + INTERVAL '1' HOUR": moment("2024-02-29 13:34:56.789"),
    "EXTRACT(MINUTE FROM rowtime)": 34,
    "FLOOR(rowtime TO HOUR)": moment("2024-02-29 12:00:00"),
    "CEIL(rowtime TO HOUR)": moment("2024-02-29 13:00:00"),
    "TIME '10:11:12'": "10:11:12",
    # Bytes that are no UTF-8: Arrow takes no such text.
    "CAST(X'6F80' AS VARCHAR)": "o\ufffd",
    # Patterns.
    "REGEXP(api_uri, '^/v[0-9]+/')": True,
    "REGEXP_EXTRACT(api_uri, '/v([0-9]+)/([a-z]+)', 2)": "orders",
    "REGEXP_EXTRACT(api_uri, '[0-9]+$')": "42",
    "api_uri SIMILAR TO '/v[0-9]/(orders|rides)/_+'": True,
    "api_uri SIMILAR TO 'orders'": False,
    "api_uri NOT SIMILAR TO '%/[[:ALPHA:]]+/%'": False,
    "api_uri SIMILAR TO '/v1/orders!_42' ESCAPE '!'": False,
    "REGEXP_EXTRACT(api_uri, 'x(y)', 1)": None,
    "REGEXP_REPLACE(api_uri, '[0-9]+', 'N')": "/vN/orders/N",
    "REGEXP_REPLACE(api_uri, '/([a-z]+)/', '<$1>')": "/v1<orders>42",
    "REGEXP_REPLACE(api_name, 'o', '\\$')": "$rders",
    # JSON.
    "JSON_VALUE(request_json, '$.cart.total')": "12.5",
    "JSON_VALUE(request_json, '$.cart.items[0].sku')": "A-1",
    "JSON_VALUE(request_json, '$.note')": "{x",
    "JSON_VALUE(request_json, '$.ok')": "true",
    "JSON_VALUE(request_json, '$.cart')": None,
    "JSON_VALUE(request_json, '$.missing')": None,
    "JSON_VALUE(request_json, '$.none')": None,
    "JSON_VALUE(client_ip, '$.a')": None,
    "JSON_VALUE(request_json, '$.cart.total' RETURNING DOUBLE)": 12.5,
    "JSON_VALUE(request_json, '$.missing' RETURNING INTEGER DEFAULT 7 ON EMPTY DEFAULT 8 ON ERROR)": 7,
    "JSON_VALUE(request_json, '$.cart' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR)": "error",
    "JSON_VALUE(client_ip, '$.a' DEFAULT 'empty' ON EMPTY DEFAULT 'error' ON ERROR)": "error",
    "JSON_VALUE(request_json, '$.none' DEFAULT 'empty' ON EMPTY NULL ON ERROR)": None,
    "JSON_VALUE(request_json, '$.note' NULL ON EMPTY)": "{x",
    "ARRAY[1, http_status_code, NULL]": [1, 200, None],
    "ARRAY['a', api_name][2]": "orders",
    "CARDINALITY(ARRAY[1, 2])": 2,
    "MAP['a', 1, 'b', http_status_code]['b']": 200,
    "http_status_code BETWEEN SYMMETRIC 300 AND 100": True,
    "http_status_code BETWEEN 300 AND 100": False,
    "LOG(2, 8)": 3.0,
    "LOG(1.0, 8)": None,
    "LOG(-1)": None,
    "COT(0)": None,
    "JSON_QUERY(request_json, '$.cart.items[0]')": '{"sku":"A-1"}',
    "JSON_QUERY(request_json, '$.note')": None,
    "JSON_EXISTS(request_json, '$.none')": True,
    "JSON_EXISTS(request_json, '$.missing')": False,
    "JSON_EXISTS(client_ip, '$.a')": False,
    # Text.
    "OVERLAY('abcdef' PLACING 'XY' FROM 2 FOR 3)": "aXYef",
    "OVERLAY('abcdef' PLACING 'XY' FROM 2)": "aXYdef",
    "REPEAT(api_name, 2)": "ordersorders",
    "REPEAT('a', 0)": "",
    "HEX(255)": "FF",
    "HEX('Az')": "417A",
    "BIN(4)": "100",
    "PARSE_URL('http://a.b/c?d=e&f=g#h', 'QUERY', 'f')": "g",
    "PARSE_URL('http://a.b/c?d=e', 'HOST')": "a.b",
    "PARSE_URL('no url at all %', 'HOST')": None,
    "IS_DECIMAL('-1.5')": True,
    "IS_DECIMAL('1e5')": True,
    "SPLIT_INDEX(api_uri, '/', 1)": "v1",
}
GROUPED: dict[str, Any] = {
    "LISTAGG(api_name)": "a,b,a",
    "LISTAGG(api_name, '-')": "a-b-a",
    "LISTAGG(api_name) FILTER (WHERE http_status_code = 200)": "a",
    "LISTAGG(CAST(NULL AS VARCHAR))": None,
    "LISTAGG(DISTINCT api_name)": "a,b",
    "LISTAGG(DISTINCT api_name, '-') FILTER (WHERE http_status_code = 404)": "a",
    "LISTAGG(DISTINCT CAST(NULL AS VARCHAR))": None,
    "CARDINALITY(CollectArray(DISTINCT latency_ms))": 2,
    "CollectArray(DISTINCT latency_ms)[1]": 1.0,
    "MAX(DISTINCT latency_ms)": 2.0,
    "TUMBLE_PROCTIME(rowtime, INTERVAL '1' MINUTE) > TUMBLE_END(rowtime, INTERVAL '1' MINUTE)": True,
    "FIRST_VALUE(http_status_code)": 500,
    "LAST_VALUE(http_status_code)": 404,
    "COUNT(DISTINCT api_name)": 2,
    "COUNT(DISTINCT api_name) FILTER (WHERE http_status_code > 900)": 0,
    "STDDEV_POP(latency_ms)": 0.4714045207910317,
    "VAR_SAMP(latency_ms)": 0.3333333333333333,
    "STDDEV_SAMP(latency_ms) FILTER (WHERE http_status_code = 200)": None,
}


@pytest.fixture(scope="module")
def spark() -> Iterator[Engine]:
    with engine() as started:
        yield started


def asked(spark: Engine, sql: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The one row that the query gives over these calls."""
    (row,) = rows(spark, sql, calls)
    return row


def rows(spark: Engine, sql: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the query gives over these calls."""
    (table,) = tables("api_logs")
    checked = check(sql, [table])
    assert checked.plan is not None, checked.findings
    made = [ParseDict(call, GetMessageClass(table.message)()) for call in calls]
    view = records.decoded(table, checked.plan.reads[0].paths, made, "api_logs", 0)
    found: list[dict[str, Any]] = spark.answer(checked.plan, {"api_logs": view}).to_pylist()
    return found


def test_functions_of_single_rows_mean_what_they_mean_in_flink(spark: Engine) -> None:
    columns = ", ".join(f"{expression} AS c{number}" for number, expression in enumerate(MEANINGS))
    row = asked(spark, f"SELECT {columns} FROM api_logs", [CALL])
    found = {expression: row[f"c{number}"] for number, expression in enumerate(MEANINGS)}

    assert found == MEANINGS


def test_aggregates_mean_what_they_mean_in_flink(spark: Engine) -> None:
    at = moment("2024-02-29 12:00:30")
    calls = [
        {"event_timestamp": (at + timedelta(seconds=offset)).isoformat(), "api_name": name,
         "http_status_code": code, "latency_ms": latency}
        for offset, name, code, latency in ((0, "a", 200, 2.0), (-5, "b", 500, 1.0), (5, "a", 404, 1.0))
    ]  # fmt: skip
    columns = ", ".join(f"{expression} AS c{number}" for number, expression in enumerate(GROUPED))
    window = "TUMBLE(rowtime, INTERVAL '1' MINUTE)"
    row = asked(spark, f"SELECT {columns} FROM api_logs GROUP BY {window}", calls)
    found = {expression: row[f"c{number}"] for number, expression in enumerate(GROUPED)}

    assert found == pytest.approx(GROUPED, nan_ok=True)


PATTERNS = r"""\Qa.b*\E+ | \h+ | \H+ | \v | \V+ | \R | \p{Alpha}+ | \P{Alpha}+ | \p{Punct} | \p{XDigit}+
\p{Cntrl} | \p{L}+
\pL+ | \PL+ | \p{IsLu} | (?i)\p{Lu}+ | (?i)[A-C&&[^b]]+ | a(?i)b\Q|\Ec | (?s).+ | (?m)^. | (?m).$ | .$
a++b | (?>a+)b
(?<n>a)\k<n> | (a)(b)\2? | (?<!a)b | (?<=a)b | [a-z&&[^aeiou]]+ | [a-d[m-p]]+ | [^a-c&&[^x]]+
[\Q^-]\E]+ | [\w&&\D]+
[^\s,;]+ | \x41 | \u0042 | \0101 | \x{1F600} | \b\w+\b | \B. | \w+ | \s+ | \D+ | a{1,2}? | (?x) a b \s c
[.*+?$]
\z | \Z | ^a | .+ | \. | [\h\v]+ | \p{Sc}"""
TEXTS = [
    "", "abc", "ABC aXb", "a.b*c a.b*a.b*", "x\r\ny\u2028z\x85", "é\xa0ü caféCAFÉ", "tab\tvt\x0bff\x0c\n",
    "aab aaa",
    "a,b;c d_e-1", "[^-]] $9.5 😀", "ไทย 日本 42", "line1\nline2\n", "ab c|a b\x00",
]  # fmt: skip


def test_java_finds_in_a_text_what_python_is_told_to_find(spark: Engine) -> None:
    patterns = re.split(r" \| |\n", PATTERNS)
    columns = ", ".join(f"{marked(pattern)} AS c{at}" for at, pattern in enumerate(patterns))
    calls = [CALL | {"api_uri": text} for text in TEXTS]
    answers = rows(spark, f"SELECT api_uri, {columns} FROM api_logs", calls)
    found = {(row["api_uri"], one): row[f"c{at}"] for row in answers for at, one in enumerate(patterns)}
    expected = {
        (text, one): "".join(in_marks(compile_pattern(one), text)) for text in TEXTS for one in patterns
    }

    assert found == expected


def marked(pattern: str) -> str:
    return f"REGEXP_REPLACE(api_uri, '{pattern}', '<$0>')"


def in_marks(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The text with every match in marks."""
    start = 0
    for found in matches(pattern, text):
        yield f"{text[start : found.start()]}<{found[0]}>"
        start = found.end()
    yield text[start:]
