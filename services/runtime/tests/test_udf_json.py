"""Functions over JSON, without Spark: the corpus, paths, what stays as it was written, both forms."""

import json
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conformance.corpus import cases
from tests.conformance.values import agrees, plain, refusal

from daggersql.functions.jsonpaths import parse
from runtime.functions import jsondelete, jsonquery, jsonupdate
from runtime.values import jsonpath

REFERENCES: dict[str, Any] = {
    "JsonQuery": jsonquery.reference,
    "JsonUpdate": jsonupdate.reference,
    "JsonDelete": jsondelete.reference,
}
CASES = {case["id"]: case for case in cases("udf_cases") if case["udf"] in REFERENCES}
DOCUMENT = (
    '{"a":{"b":[{"c":1,"d":"x"},{"c":2,"d":"y"},{"c":3}]},"e":[10,20,30],"f.g":"dotted","h":true,"n":null}'
)
TEXTS = st.text(max_size=5)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc") | TEXTS, inner, max_size=3)
    ),
    max_leaves=12,
)
PATHS = st.lists(
    st.sampled_from(
        [".a", ".b", "['c']", "[0]", "[-1]", "[*]", ".*", "..a", "[0:1]", "['a','b']", "[?(@.a)]"]
    ),
    max_size=4,
).map(lambda steps: "$" + "".join(steps))


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


@pytest.mark.parametrize(
    "name", sorted(name for name, case in CASES.items() if not refusal(case["expected"]))
)
def test_the_reference_gives_what_the_corpus_says(name: str) -> None:
    case = CASES[name]
    answer = REFERENCES[case["udf"]](*map(plain, case["args"]))

    assert agrees(case["expected"], answer, case.get("compare", "exact")), answer


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.e[-1]", "30"), ("$.e[0,2]", "[10,30]"), ("$.e[1:]", "[20,30]"), ("$.e[-2:]", "[20,30]"),
        ("$.e[*]", "[10,20,30]"), ("$['f.g']", '"dotted"'), ('$["a"]["b"][0]["d"]', '"x"'), ("e[0]", "10"),
        ("$.a.b[*].d", '["x","y",null]'), ("$..c", "[null,null,1,2,3]"), ("$.a.b[?(@.d)].c", "[1,2]"),
        ("$.a.b[?(@.c >= 2 && !(@.d == 'y'))].c", "[3]"), ("$.a.b[?(@.c in [1, 3])].c", "[1,3]"),
        ("$.a.b[?(@.c == $.e[0] || @.d != 'x')].c", "[2,3]"), ("$.a.b[?(@.c > 99)]", "[]"),
        ("$['h','zz']", '{"h":true,"zz":null}'), ("$.e[7:9]", "[]"), ("$.e.length()", "3"),
        ("$.length()", "5"), ("$.h.length()", None), ("$.n", None), ("$.n.x", None),
        ("$.zz[*].c", None), ("$.e.x", None), ("$.h[0]", None), ("$.a.b[-4]", None),
        ("$.e[?(@ > 15)]", "[20,30]"),
    ],
)  # fmt: skip
def test_a_path_leads_where_it_says(path: str, expected: str | None) -> None:
    assert jsonquery.reference(DOCUMENT, path) == expected


@pytest.mark.parametrize(
    "path",
    ["", " ", "$ .a", "$.", "$..", "$a", "$[", "$[]", "$.a[", "$.a['b", "$.a[b]", "$.a b", "$.a.mode()",
     "$.a.length().b",
     "$[?(@.a", "$[?('x')]", "$[?(@.a ~ 1)]", "$.a]", "$[?" + "(" * 200, "$" + ".a" * 600],
)  # fmt: skip
def test_what_is_no_path_is_said_in_a_sentence(path: str) -> None:
    with pytest.raises(ValueError, match=r"^[A-Z].*\.$"):
        parse(path)


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ('{"a": 12345678901234567890123}', "$.a", "12345678901234567890123"),
        ('{"a": 1.10e+05}', "$", '{"a":1.10e+05}'),
        (' {"b" : 1 ,\n"a" : [ 1 , 2 ] } ', "$", '{"b":1,"a":[1,2]}'),
        ('{"a":"\\u00e9\\/\\n\\u0001"}', "$.a", '"é/\\n\\u0001"'),
        ('{"a":"\\ud83d\\ude00 \\ud83d"}', "$.a", '"😀 \\ud83d"'),
        ('{"a":1,"b":0,"a":2}', "$", '{"a":2,"b":0}'),
    ],
)
def test_what_the_path_does_not_change_stays_as_it_was_written(
    document: str, path: str, expected: str
) -> None:
    assert jsonquery.reference(document, path) == expected


@pytest.mark.parametrize(
    "document",
    ["", " ", "{", "{'a':1}", "NaN", '{"a":Infinity}', "{} {}", '{"a":01}', "\ufeff{}", "[" * 100_000],
)
def test_what_is_no_json_gives_null_and_is_counted(document: str) -> None:
    answers, bad = jsonpath.for_distinct(
        (texts(document, "{}", None, document), texts(*["$"] * 4)), jsonquery.query
    )

    assert (answers.to_pylist(), bad) == ([None, "{}", None, None], 2)


def test_a_document_put_into_itself_again_and_again_ends_as_null_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JsonUpdate in JsonUpdate, as a query of 2.5 KB wrote it, which held 2 GB."""
    monkeypatch.setattr(jsonpath, "MAX_CHARS", 64 * 1024)
    document = texts('{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8}', None)
    tracemalloc.start()
    try:
        for _ in range(40):
            handed = [value and '{"v":' + value + "}" for value in document.to_pylist()]
            document, bad = jsonpath.for_distinct(
                (document, texts("$.*", "$.*"), texts(*handed)), jsonupdate.update
            )
            if bad:
                break
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (document.to_pylist(), bad) == ([None, None], 1)
    assert peak < 64 * jsonpath.MAX_CHARS


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.l[*].x", '{"l":[{"x":9},{"y":2,"x":9}],"m":1}'), ("$.m.x", '{"l":[{"x":1},{"y":2}],"m":1}'),
        ("$.new", '{"l":[{"x":1},{"y":2}],"m":1,"new":9}'),
        ("$.l[?(@.y)].y", '{"l":[{"x":1},{"y":9}],"m":1}'),
        ("$..x", '{"l":[{"x":9},{"y":2,"x":9}],"m":1,"x":9}'), ("$.l[5]", '{"l":[{"x":1},{"y":2}],"m":1}'),
    ],
)  # fmt: skip
def test_update_changes_what_the_path_leads_to_and_adds_a_last_name(path: str, expected: str) -> None:
    assert jsonupdate.reference('{"l":[{"x":1},{"y":2}],"m":1}', path, 9) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$[0,2]", "[1,[3,4]]"), ("$[*]", "[]"), ("$[-1][0]", "[0,1,2,[4]]"), ("$..[0]", "[1,2,[4]]"),
        ("$[1:3]", "[0,[3,4]]"),
    ],
)  # fmt: skip
def test_delete_takes_out_every_place_at_once(path: str, expected: str) -> None:
    assert jsondelete.reference("[0,1,2,[3,4]]", path) == expected


@given(
    st.lists(VALUES.map(lambda value: json.dumps(value, ensure_ascii=False)) | TEXTS | st.none(), max_size=6),
    PATHS,
)
@example(['{"a":1}', None, '{"a":1}', "x"], "$.a")
@example(['[{"b":1},{}]'], "$[*].a")
@settings(max_examples=3 * settings.default.max_examples)
def test_the_fast_forms_give_each_row_what_the_references_give(
    documents: list[str | None], path: str
) -> None:
    column, paths = texts(*documents), texts(*[path] * len(documents))
    new = texts(*['{"v":7}'] * len(documents))
    found = jsonpath.for_distinct((column, paths), jsonquery.query)[0].to_pylist()

    assert found == [jsonquery.reference(document, path) for document in documents]
    if path != "$":
        assert jsondelete.compute(column, paths).to_pylist() == [
            jsondelete.reference(e, path) for e in documents
        ]
        assert jsonupdate.compute(column, paths, new).to_pylist() == [
            jsonupdate.reference(document, path, 7) for document in documents
        ]


@given(VALUES)
@settings(max_examples=3 * settings.default.max_examples)
def test_a_document_is_the_same_after_it_was_read_and_written(value: Any) -> None:
    assert json.loads(jsonpath.dumps(jsonpath.loads(json.dumps(value)))) == value
