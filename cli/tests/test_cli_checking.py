"""`daggers validate` and `daggers sql check`: findings with their places, columns, exit code 0 or 1."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import run
from cli.output.printer import Format, Printer, print_findings

GOOD = "SELECT city, price FROM orders"
WRONG = "SELECT citty,\n\tprice * status AS x\nFROM orders"
TABLE = {"schema": "shop.proto", "message": "shop.v1.Order", "time_field": "event_time"}


@pytest.fixture
def sql_check(shell: Any, monkeypatch: pytest.MonkeyPatch, shop: str) -> Any:
    """Runs `daggers sql check` with a query on standard input; exit code, stdout, stderr."""
    shell.file("shop.proto", shop)

    def ask(query: bytes | str, *words: str, streams: Any = None) -> tuple[int, str, str]:
        text = streams if isinstance(streams, str) else json.dumps(streams or {"orders": TABLE})
        raw = query if isinstance(query, bytes) else query.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        shell.capture.readouterr()
        code = run(["sql", "check", "--streams", str(shell.file("streams.json", text)), *words])
        said = shell.capture.readouterr()
        return code, said.out, said.err

    return ask


def refused(out: str) -> list[tuple[str, str]]:
    return [(each["field"], each["code"]) for each in json.loads(out)["error"]["findings"]]


def test_a_query_that_can_run_tells_its_columns_and_asks_no_gateway(sql_check: Any) -> None:
    code, out, _ = sql_check("SELECT city AS label_city, price FROM orders", "-o", "json")

    assert (code, json.loads(out)) == (
        0,
        {
            "valid": True,
            "findings": [],
            "columns": [
                {"name": "label_city", "role": "tag", "key": "city", "type": "string"},
                {"name": "price", "role": "field", "key": "price", "type": "double"},
            ],
        },
    )


def test_every_mistake_of_a_query_is_told_with_its_place_and_a_caret(sql_check: Any) -> None:
    code, out, _ = sql_check(WRONG, "-o", "json")
    document = json.loads(out)

    assert (code, document["valid"], document["columns"]) == (1, False, [])
    assert [(f["code"], f["line"], f["column"], f["suggestion"]) for f in document["findings"]] == [
        ("UNKNOWN_COLUMN", 1, 8, "city"),
        ("TYPE_MISMATCH", 2, 10, None),
    ]
    assert document["findings"][0]["source"] == "    SELECT citty,\n           ^^^^^"


def test_people_get_the_line_and_what_to_write(sql_check: Any) -> None:
    code, out, err = sql_check(WRONG)

    assert (code, out.splitlines()[:4], err) == (
        1,
        [
            "  SQL line 1, column 8: There is no column citty in orders. [UNKNOWN_COLUMN]",
            "    SELECT citty,",
            "           ^^^^^",
            "    suggestion: city",
        ],
        "2 things are wrong with the query\n",
    )


@pytest.mark.parametrize(
    ("message", "suggestion", "times"),
    [
        ("There is no a", "b", 1),
        ("There is no a: did you mean b?", "b", 0),
        ("Give this column a name: AS fare_2.", "AS fare_2", 0),
        ("Elements are counted from 1.", "1", 1),
        ("There is no column abc", "b", 1),
    ],
)
def test_what_to_write_is_told_once(
    message: str, suggestion: str, times: int, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = {"code": "X", "line": 1, "column": 1, "suggestion": suggestion, "source": "    a"}
    print_findings(Printer(Format.TEXT).console, [{**finding, "message": message}])

    assert capsys.readouterr().out.count(f"suggestion: {suggestion}") == times


def test_a_warning_is_told_and_changes_nothing(sql_check: Any) -> None:
    group = "GROUP BY TUMBLE(rowtime, INTERVAL '1' MINUTE), city"
    code, out, _ = sql_check(f"SELECT COUNT(1) AS n FROM orders {group}", "-o", "json")

    assert (code, json.loads(out)["valid"]) == (0, True)
    assert {finding["severity"] for finding in json.loads(out)["findings"]} == {"warning"}


def test_a_query_of_ten_megabytes_is_refused_with_one_short_line(sql_check: Any) -> None:
    code, out, _ = sql_check("SELECT 1 " * 1_200_000, "-o", "json")

    assert (code, [each["code"] for each in json.loads(out)["findings"]]) == (1, ["QUERY_TOO_LARGE"])
    assert len(out) < 1_000


def test_a_query_that_is_not_text_is_refused(sql_check: Any) -> None:
    code, out, _ = sql_check(b"SELECT \xff", "-o", "json")

    assert (code, json.loads(out)["error"]["reason"]) == (1, "INVALID_QUERY")


def test_a_descriptor_set_and_a_list_of_files_will_do(sql_check: Any, shell: Any) -> None:
    shell.file("place.proto", 'syntax = "proto3"; package shop.v1; message Place { string name = 1; }')
    streams = {"orders": TABLE | {"schema": ["place.proto", "shop.proto"]}}

    assert sql_check(GOOD, streams=streams)[0] == 0


def test_everything_that_is_wrong_with_the_file_of_streams_is_told_at_once(sql_check: Any) -> None:
    streams = {
        "a": {"schema": "shop.proto", "mesage": "x", "time_field": 3},
        "b": TABLE | {"time_field": "city"},
        "c": TABLE | {"message": "shop.v1.Oder"},
        "d": TABLE | {"schema": "none.proto"},
        "e": [],
    }

    code, out, _ = sql_check(GOOD, "-o", "json", streams=streams)

    assert (code, refused(out)) == (
        1,
        [
            ("a.mesage", "UNKNOWN_KEY"),
            ("a.message", "MISSING_KEY"),
            ("a.time_field", "WRONG_TYPE"),
            ("b.time_field", "NOT_A_TIMESTAMP"),
            ("c.message", "UNKNOWN_MESSAGE"),
            ("d.schema", "BAD_VALUE"),
            ("e", "WRONG_TYPE"),
        ],
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 100_000])
def test_a_file_of_streams_that_is_no_object_is_refused(sql_check: Any, text: str) -> None:
    code, out, _ = sql_check(GOOD, "-o", "json", streams=text or " ")

    assert (code, json.loads(out)["error"]["reason"]) == (1, "INVALID_STREAMS")


def test_the_format_of_the_file_of_streams_stands_in_the_help(shell: Any) -> None:
    code, out, _ = shell("sql", "check", "--help")

    assert (code, '"time_field"' in out) == (0, True)


def test_a_dagger_file_that_can_run_tells_the_columns_of_each_dagger(shell: Any, dagger_file: str) -> None:
    shell.fill()
    file = shell.file("d.yaml", f"{dagger_file}---\n{dagger_file.replace('orders_by', 'again_by')}")

    code, out, _ = shell("validate", "-f", file, "-o", "json")
    document = json.loads(out)

    assert (code, document["valid"], document["findings"], document["file"]) == (0, True, [], str(file))
    assert [(each["name"], [c["role"] for c in each["columns"]]) for each in document["daggers"]] == [
        ("orders_by_city", ["tag", "field", "time"]),
        ("again_by_city", ["tag", "field", "time"]),
    ]
    assert json.loads(shell("list", "-o", "json")[1]) == []


def test_what_is_wrong_has_its_place_in_the_query_and_in_the_file(shell: Any, dagger_file: str) -> None:
    shell.fill()
    wrong = dagger_file.replace("  FROM", "  , citty AS x\n  FROM").replace("pricing", "pricing\ntriger: 1s")
    file = shell.file("d.yaml", wrong.replace("measurement: orders", "url: ftp://x"))

    code, out, _ = shell("validate", "-f", file)
    found = json.loads(shell("validate", "-f", file, "-o", "json")[1])["findings"]

    assert code == 1
    assert [(f["field"], f["code"], f["line"], f.get("file_line")) for f in found] == [
        ("triger", "UNKNOWN_KEY", 3, None),
        ("sinks[0].influx.url", "INVALID_URL", 15, None),
        ("sql", "UNKNOWN_COLUMN", 3, 10),
    ]
    assert f"  SQL line 3, column 3 ({file}:10): " in out
    assert "    , citty AS x\n      ^^^^^\n" in out


def test_the_line_of_a_query_that_is_no_block_is_known_too(shell: Any, dagger_file: str) -> None:
    shell.fill()
    head, _, rest = dagger_file.partition("sql: |")
    file = shell.file(
        "d.yaml", f"{head}sql: SELECT citty AS x FROM `data_stream`\nsinks{rest.partition('sinks')[2]}"
    )

    [found] = json.loads(shell("validate", "-f", file, "-o", "json")[1])["findings"]

    assert (found["code"], found["line"], found["file_line"]) == ("UNKNOWN_COLUMN", 1, 6)


def test_warnings_do_not_make_a_dagger_file_wrong(shell: Any, dagger_file: str) -> None:
    shell.fill()
    file = shell.file("d.yaml", dagger_file.replace("SECOND), city", "SECOND), city, status"))

    code, out, _ = shell("validate", "-f", file)

    assert (code, ": warning: " in out) == (0, True)


def test_without_a_gateway_a_wrong_file_is_still_told_of_and_a_good_one_is_unreachable(
    tmp_path: Path, dagger_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = []
    for text in (dagger_file, dagger_file.replace("team", "taem")):
        (tmp_path / "d.yaml").write_text(text)
        codes.append(run(["validate", "-f", str(tmp_path / "d.yaml"), "--gateway", "127.0.0.1:1"]))

    assert codes == [3, 1]
    assert "did you mean team?" in capsys.readouterr().out
