"""JSON paths do what json-path 2.4 did when it was asked the same (com.jayway.jsonpath:json-path:2.4.0)."""

import pytest
from tests.conformance.corpus import tables

from daggersql import check
from runtime.functions import jsondelete, jsonquery, jsonupdate

DOCUMENT = (
    '{"o":[{"v":1,"g":"x"},{"v":"1","g":"Yx"},{"v":null,"g":""},{"g":[1,2]},{"v":2.5,"g":{"h":1}}],"n'
    '":[3,1.5,2],"k":{"a":1,"b":{"a":2}},"s":"a/b"}'
)
SMALL = '{"o":[{"v":1,"g":"x"},{"g":[1,2]},{"v":2.5}],"n":[3,1.5],"k":{"a":1}}'


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.o[?(@.v==1||@.v==2.5)].g", '["x","Yx",{"h":1}]'),
        ("$.o[?(@.v==1&&@.g=='x')].g", '["x"]'),
        ("$.o[?(@.v == 1 || @.v == 2.5 && @.g == 'x')].g", '["x","Yx"]'),
        ("$.o[?(@.v <= 2.5)].v", "[1,2.5]"),
        ("$.o[?(@.v<2.5)].v", "[1]"),
        ("$.o[?(@.v == '1')].g", '["x","Yx"]'),
        ("$.o[?('1' == @.v)].g", '["x","Yx"]'),
        ("$.o[?(@.v === 1)].g", '["x"]'),
        ("$.o[?(@.v !== 1)].g", '["Yx","",[1,2],{"h":1}]'),
        ("$.o[?(@.v == null)].g", '["",[1,2]]'),
        ("$.o[?(@.v)].g", '["x","Yx","",{"h":1}]'),
        ("$.o[?(!@.v)].g", "[[1,2]]"),
        ("$.o[?(@.g == [1,2])].g", "[[1,2]]"),
        ("$.o[?(@.g == {'h': 1})].v", "[2.5]"),
        ("$.o[?(@.g =~ /.*X/i)].v", '[1,"1"]'),
        ("$.o[?(@.g =~ /x/)].v", "[1]"),
        ("$.o[?(@.v =~ /2\\.5/)].v", "[2.5]"),
        ("$.o[?(@.g =~ /\\Qx\\E|\\p{Upper}\\p{Lower}/)].v", '[1,"1"]'),
        ("$.o[?(/.?x/ =~ @.g)].v", '[1,"1"]'),
        ("$.o[?(@.v in [1, 2.5])].v", '[1,"1",2.5]'),
        ("$.o[?(@.v nin [1, 2.5])].v", "[null,null]"),
        ("$.o[?(@.v in $.n)].v", "[]"),
        ("$.o[?('x' in @.g)].v", "[]"),
        ("$.o[?(@.g contains 'x')].v", '[1,"1"]'),
        ("$.o[?(@.g contains 2)].g", "[[1,2]]"),
        ("$.o[?(@.g subsetof [1,2,3])].g", "[[1,2]]"),
        ("$.o[?(@.g size 2)].g", '["Yx",[1,2]]'),
        ("$.o[?(@.g empty true)].g", '[""]'),
        ("$.o[?(@.g.length() == 2)].g", "[[1,2]]"),
        ("$.o[?(@.g.size() > 1)].g", "[[1,2]]"),
        ("$.o[?(@.v > $.k.a)].v", "[2.5]"),
        ("$.n.sum()", "6.5"),
        ("$.n.avg()", "2.1666666666666665"),
        ("$.n.min()", "1.5"),
        ("$.n.max()", "3.0"),
        ("$.n.stddev()", "0.6236095644623232"),
        ("$.n.length()", "3"),
        ("$.n.size()", "3"),
        ("$.k.length()", "2"),
        ("$.s.length()", None),
        ("$.o[*].length()", "[2,2,2,1,2]"),
        ("$.sum($.k.a, $.k.b.a, 10)", "13.0"),
        ('$.concat($.s, "-z")', '"a/b-z"'),
        ("$.o[0]['v','g']", '{"v":1,"g":"x"}'),
        ("$.o[:2]['v','zz']", '[{"v":1,"zz":null},{"v":"1","zz":null}]'),
        ("$['k','zz'].a", "[1]"),
        ("$['zz','k']", '{"zz":null,"k":{"a":1,"b":{"a":2}}}'),
        ("$..a", "[null,null,null,null,null,null,null,1,2]"),
        ("$.k..['a','b']", '[{"a":1,"b":{"a":2}},{"a":2,"b":null}]'),
        ("$..a.length()", "[null,null]"),
        ("$.k..a", "[1,2]"),
        ("$.o[1:3].g", '["Yx",""]'),
        ("$.o[-2:].v", "[null,2.5]"),
        ("$.o[-2:-1].g", "[[1,2]]"),
        ("$.['k'].a", "1"),
        ("@.s", '"a/b"'),
        ("$['\\u0073']", '"a/b"'),
        ("$..[0]", '[{"v":1,"g":"x"},1,3]'),
        ("$..[?(@.a)].b", '[{"a":2},null]'),
    ],
)
def test_a_path_gives_what_json_path_gave(path: str, expected: str | None) -> None:
    assert jsonquery.reference(DOCUMENT, path) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.o[?(@.v == 1)].g", '{"o":[{"v":1,"g":9},{"g":[1,2]},{"v":2.5}],"n":[3,1.5],"k":{"a":1}}'),
        ("$.o[?(@.v)]", '{"o":[9,{"g":[1,2]},9],"n":[3,1.5],"k":{"a":1}}'),
        ("$.k['a','zz']", '{"o":[{"v":1,"g":"x"},{"g":[1,2]},{"v":2.5}],"n":[3,1.5],"k":{"a":9,"zz":9}}'),
        (
            "$..a",
            '{"o":[{"v":1,"g":"x","a":9},{"g":[1,2],"a":9},{"v":2.5,"a":9}],"n":[3,1.5],"k":{"a":9},"a":9}',
        ),
        ("$.n[?(@ > 1.5)]", '{"o":[{"v":1,"g":"x"},{"g":[1,2]},{"v":2.5}],"n":[9,1.5],"k":{"a":1}}'),
        ("$.k[?(@.a)].a", '{"o":[{"v":1,"g":"x"},{"g":[1,2]},{"v":2.5}],"n":[3,1.5],"k":{"a":9}}'),
        (
            "$.o[*].w",
            '{"o":[{"v":1,"g":"x","w":9},{"g":[1,2],"w":9},{"v":2.5,"w":9}],"n":[3,1.5],"k":{"a":1}}',
        ),
    ],
)
def test_an_update_changes_what_json_path_changed(path: str, expected: str | None) -> None:
    assert jsonupdate.reference(SMALL, path, 9) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.o[?(@.v == 1)]", '{"o":[{"g":[1,2]},{"v":2.5}],"n":[3,1.5],"k":{"a":1}}'),
        ("$.o[*]['v','g']", '{"o":[{},{},{}],"n":[3,1.5],"k":{"a":1}}'),
        ("$..a", '{"o":[{"v":1,"g":"x"},{"g":[1,2]},{"v":2.5}],"n":[3,1.5],"k":{}}'),
        ("$.n[?(@ =~ /\\d/)]", '{"o":[{"v":1,"g":"x"},{"g":[1,2]},{"v":2.5}],"n":[1.5],"k":{"a":1}}'),
        ("$.o[?(@.g size 2)].g", '{"o":[{"v":1,"g":"x"},{},{"v":2.5}],"n":[3,1.5],"k":{"a":1}}'),
        ("$.o[1:]", '{"o":[{"v":1,"g":"x"}],"n":[3,1.5],"k":{"a":1}}'),
    ],
)
def test_a_delete_takes_out_what_json_path_took_out(path: str, expected: str | None) -> None:
    assert jsondelete.reference(SMALL, path) == expected


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ('{"b":{"b":[1,2,3]}}', "$..b..[0]", '{"b":{"b":[3]}}'),
        ('[{"a":[{},1]},[2]]', "$..[*]..[0:1]", '[{"a":[]},[]]'),
        ('{"c":{"c":{"b":["x",2,1]}},"a":2}', "$..[?(@.c)]..[0]", '{"c":{"c":{"b":[1]}},"a":2}'),
        ("[[1,2,3],[4]]", "$[0][0,0]", "[[3],[4]]"),
        # json-path ends the job here: there is no second element.
        ("[[1],[4]]", "$[0][0,0]", "[[],[4]]"),
    ],
)
def test_each_way_to_an_element_deletes_one_as_in_json_path(document: str, path: str, expected: str) -> None:
    assert jsondelete.reference(document, path) == expected


@pytest.mark.parametrize("path", ["$..*[?(@.a)]", "$..*..[?(@.a)]", "$.o..[?(@.a)][?(@.b)]"])
def test_a_filter_behind_all_that_two_dots_find_changes_nothing(path: str) -> None:
    (finding,) = check(f"SELECT JsonDelete(order_number, '{path}') AS x FROM bookings", tables()).findings

    assert finding.code == "INVALID_JSON_PATH"


@pytest.mark.parametrize(
    "path",
    ["$.n.foo()", "$.n.sum().x", "$.n.sum(4)", "$.n.append(10)", "$.sum($..a)", "$.length($.n)",
     "$.n.sum(-10)", "$.o[1:-1]", "$.o[-5:3]", "$.o[0:5:2]", "$..[0].g", "$.o[?(@.v&&@.g)]",
     "$.o[?(!@.v == 1)]", "$.o[?($.k)]",
     "$.o[?(@.v <> 1)]", "$.o[?(@.v = 1)]", "$.o[?(@.v == 1 and @.g == 2)]", "$.o[?(@.v exists true)]",
     "$.o[?(@.g all [1])]", "$.o[?(@.g anyof [1])]", "$.o[?(@.g =~ 'x')]", "$.o[?(@.g == /x/)]",
     "$.o[?(@.g =~ /(/)]", "$.o[?(@.g =~ /(a+)+/)]", "$.o[?(@.g =~ /x)]", "$.o[?(@.v in 1)]",
     "$.o[?(@.g size 'x')]", "$.o[?(@.g empty)]", "$.o[?([1] == @.g)]", "$.o[?(@.g =~ /\\p{IsLatin}/)]"],
)  # fmt: skip
def test_what_json_path_reads_as_something_else_or_as_nothing_is_said(path: str) -> None:
    constant = path.replace("'", "''")
    (finding,) = check(f"SELECT JsonQuery(order_number, '{constant}') AS x FROM bookings", tables()).findings

    assert (finding.code, finding.line, finding.column) == ("INVALID_JSON_PATH", 1, 32)
    assert finding.message[0].isupper()


def test_the_root_is_not_deleted_and_not_replaced() -> None:
    assert jsondelete.reference(DOCUMENT, "$") == DOCUMENT
    assert jsonupdate.reference(DOCUMENT, "$", 9) == DOCUMENT


@pytest.mark.parametrize("path", ["$.o.sum()", "$.zz.sum()", "$.k.max()", "$.o[*].v.sum()"])
def test_a_function_without_numbers_gives_null(path: str) -> None:
    assert jsonquery.reference(DOCUMENT, path) is None
