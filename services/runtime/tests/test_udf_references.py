"""Reference tables: their content, and both forms of the look-ups."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from daggers.v1 import spec_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.corpus import cases, tables
from tests.conformance.values import refusal

from daggersql import Reference, Severity, check
from daggersql.functions.javaregexes import compile_pattern
from runtime.functions import dartcontains, dartget, load
from runtime.references import InvalidContent, Tables, entries, mapping, parse

Format = spec_pb2.ReferenceTable
NAMES = ("DartGet", "DartContains")
CASES = {case["id"]: case for case in cases("udf_cases") if case["udf"] in NAMES}
REFUSED_WHEN_CHECKED = {"REFERENCE_NOT_FOUND", "INVALID_ARGUMENT", "INVALID_REGEX"}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_plain_form_gives_what_the_corpus_says(name: str) -> None:
    case = CASES[name]
    found = Tables(case["given"]["reference"].__getitem__, lambda: 0.0)
    reference = load(case["udf"].lower()).reference
    reason = refusal(case["expected"])
    if reason in REFUSED_WHEN_CHECKED:
        args = ", ".join(f"'{arg}'" if isinstance(arg, str) else str(arg) for arg in case["args"])
        sql = f"SELECT {case['udf']}({args}) AS v FROM bookings"
        answer: Any = check(sql, tables("bookings"), case["given"]["reference"]).findings[0].code
    elif reason == InvalidContent.reason:
        with pytest.raises(InvalidContent):
            reference(*case["args"], tables=found)
        return
    elif case["given"].get("calls"):
        answer = {"results": [reference(*call, tables=found) for call in case["args"]], "loads": found.loads}
    else:
        answer = reference(*case["args"], tables=found)

    assert answer == (reason or case["expected"])


def test_a_table_is_read_again_once_it_is_too_old() -> None:
    now = [0.0]
    found = Tables({"m": {"k": "v"}}.__getitem__, lambda: now[0])
    loads = []
    for hour in (0.0, 1.9, 2.0, 2.5):
        now[0] = hour
        found.get("m", 2)
        loads.append(found.loads)

    assert loads == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("DartGet('../../secrets/token', driver_id, 1)", "INVALID_ARGUMENT"),
        ("DartGet(driver_id, driver_id)", "INVALID_ARGUMENT"),
        ("DartGet('owner', driver_id)", "REFERENCE_NOT_FOUND"),
        ("DartGet('owners', driver_id, discount)", "INVALID_ARGUMENT"),
        ("DartGet('owners', driver_id, 1.5)", "TYPE_MISMATCH"),
        ("DartContains('owners', driver_id, '(%s')", "INVALID_REGEX"),
        ("DartContains('owners', driver_id, status)", "INVALID_ARGUMENT"),
    ],
)
def test_a_mistake_in_a_look_up_is_refused(call: str, code: str) -> None:
    found = check(f"SELECT {call} AS v FROM bookings", tables("bookings"), ["owners"]).findings

    assert code in {finding.code for finding in found}


@pytest.mark.parametrize("pattern", ["50%", "%d%s", "%2$s", "%-s", "%s%", "%.2%"])
def test_a_percent_sign_that_begins_no_format_is_warned_of_and_stands_for_itself(pattern: str) -> None:
    sql = f"SELECT DartContains('owners', driver_id, '{pattern}') AS v FROM bookings"
    found = check(sql, tables("bookings"), ["owners"])

    assert found.plan is not None
    assert [(finding.code, finding.severity) for finding in found.findings] == [
        ("INVALID_ARGUMENT", Severity.WARNING)
    ]
    assert [one.pattern for one in dartcontains.patterns(pattern, ("x",))] == [
        compile_pattern(pattern.replace("%s", "x")).pattern
    ]


def test_a_table_is_read_at_least_once_a_year() -> None:
    sql = "SELECT DartGet('owners', driver_id, 1000000) AS v FROM bookings"
    plan = check(sql, tables("bookings"), ["owners"]).plan

    assert plan is not None
    assert [reference.refresh_hours for reference in plan.references] == [24 * 365]


def test_a_plan_says_which_tables_it_reads_how_and_how_often() -> None:
    sql = (
        "SELECT DartGet('owners', driver_id, 6, 'none') AS owner, DartGet('owners', driver_id, status) AS"
        " other FROM bookings WHERE DartContains('vip', driver_id, '^%s.*', 0)"
    )
    plan = check(sql, tables("bookings"), ["owners", "vip"]).plan

    assert plan is not None
    assert set(plan.references) == {
        Reference("owners", entries=False, refresh_hours=6),
        Reference("owners", entries=False, refresh_hours=1),
        Reference("vip", entries=True, refresh_hours=0),
    }


# --- content ---------------------------------------------------------------------------------------------


def parquet(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("form", "data", "content"),
    [
        (Format.FORMAT_JSON, b'{"k": 1}', {"k": 1}),
        (Format.FORMAT_CSV, b'entry\na\n"b,c"\n', {"data": ["a", "b,c"]}),
        (Format.FORMAT_CSV, "\ufeffkey,value\nk,é\n\n".encode(), {"k": "é"}),
        (Format.FORMAT_CSV, b"key,a,b\nk,1,2\n", {"k": {"a": "1", "b": "2"}}),
        (Format.FORMAT_PARQUET, parquet(key=[1, 2], value=["a", None]), {"1": "a", "2": None}),
        (Format.FORMAT_PARQUET, parquet(entry=["a", "b"]), {"data": ["a", "b"]}),
    ],
)
def test_every_format_becomes_the_same_kind_of_content(
    form: Format.Format.ValueType, data: bytes, content: Any
) -> None:
    assert parse(form, data) == content


@pytest.mark.parametrize(
    ("form", "data"),
    [
        (Format.FORMAT_JSON, b"{"),
        (Format.FORMAT_JSON, b"\xff"),
        (Format.FORMAT_CSV, b"key,value\nk\n"),
        (Format.FORMAT_CSV, b"\xff\xfe"),
        (Format.FORMAT_PARQUET, b"PAR1"),
    ],
)
def test_what_is_not_of_its_format_is_said_in_a_sentence(form: Format.Format.ValueType, data: bytes) -> None:
    with pytest.raises(InvalidContent) as caught:
        parse(form, data)

    assert str(caught.value).startswith("It is not ")


def test_values_and_entries_are_text_and_objects_compact_json() -> None:
    values = mapping({"a": {"b": [1, "é"]}, "n": 5, "t": True, "x": None, "s": "s"})

    assert values == {"a": '{"b":[1,"é"]}', "n": "5", "t": "true", "s": "s"}
    assert entries({"data": ["a", 5, None]}) == ("a", "5")


WORDS = st.text("abA.*(éÉ\n\r\v \\$", max_size=4)
FORMS = [
    "%s", ".*%s.*", "^%s.*", "%s$", "%s|x", "x(?=%s).*", "%1$s%%", "%s%%?", "%S", "%.1s.*", "%3s|%-3s",
    "%s%s", "%d%s", "(?i)%s", "\\Q%s\\E.*", "[%s]+", "\\s*%s.", "%s\\b.*",
]  # fmt: skip


@given(
    st.lists(st.none() | WORDS, max_size=8),
    st.lists(WORDS, max_size=4),
    st.sampled_from(FORMS),
)
@settings(max_examples=3 * settings.default.max_examples)
def test_both_forms_match_alike(texts: list[str | None], listed: list[str], pattern: str) -> None:
    tables_ = Tables({"l": {"data": listed}}.__getitem__, lambda: 0.0)
    found = dartcontains.match_entries(pa.array(texts, pa.string()), pattern, tuple(listed)).to_pylist()
    expected = [dartcontains.reference("l", text, pattern, tables=tables_) for text in texts]
    known = [one for one, text in zip(found, texts, strict=True) if text is not None]

    assert known == [one for one in expected if one is not None]


@pytest.mark.parametrize(
    ("pattern", "entry", "text", "there"),
    [
        ("\\Q%s\\E", "a.c", "a.c", True), ("\\Q%s\\E", "a.c", "abc", False), ("(?i)%s", "a", "A", True),
        ("(?i)%s", "é", "É", False), ("%s.", "a", "a\r", False), ("%s.", "a", "a\v", True),
        ("%s\\h", "a", "a\t", True), ("%s\\s", "a", "a\v", True), ("%s\\R", "a", "a\r\n", True),
        ("\\p{Alpha}%s", "a", "ba", True), ("%s\\d", "a", "a\u0661", False),
        ("%s++b", "a", "aab", True), ("%S", "a", "A", True),
        ("100%%%s", "a", "100%a", True), ("%1$s-%<s", "a", "a-a", True), ("%3s", "a", "  a", True),
        ("%s", "(", "(", False),
    ],
)  # fmt: skip
def test_both_forms_match_as_java_does(pattern: str, entry: str, text: str, there: bool) -> None:
    tables_ = Tables({"l": {"data": [entry]}}.__getitem__, lambda: 0.0)
    found = dartcontains.match_entries(pa.array([text]), pattern, (entry,)).to_pylist()

    assert dartcontains.reference("l", text, pattern, tables=tables_) is there
    assert found == [there]


def test_dartget_takes_the_default_of_each_row() -> None:
    plan = check(
        "SELECT DartGet('owners', driver_id, status) AS v FROM bookings", tables("bookings"), ["owners"]
    ).plan

    assert plan is not None
    assert "dartget('owners', `s0`.`driver_id`, `s0`.`status`)" in plan.spark_sql
    assert dartget.reference("m", "x", "d", tables=Tables({"m": {}}.__getitem__, lambda: 0.0)) == "d"


@given(
    st.dictionaries(WORDS, st.none() | WORDS | st.integers(), max_size=4),
    st.lists(st.tuples(st.none() | WORDS, st.none() | WORDS), max_size=8),
)
def test_both_forms_look_up_alike_and_null_is_as_no_value(
    content: dict[str, Any], rows: list[tuple[str | None, str | None]]
) -> None:
    tables_ = Tables({"m": content}.__getitem__, lambda: 0.0)
    keys, defaults = (pa.array([row[at] for row in rows], pa.string()) for at in (0, 1))
    found = dartget.look_up(mapping(content), keys, defaults).to_pylist()
    expected = [dartget.reference("m", key, 1, default, tables=tables_) for key, default in rows]

    assert found == expected
    assert all(
        one == default
        for one, (key, default) in zip(found, rows, strict=True)
        if key is not None and content.get(key) is None
    )
