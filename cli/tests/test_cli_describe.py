"""Look before you write: what streams and schemas hold, at the command line."""

import json
from typing import Any


def test_a_stream_is_described_in_a_table_and_whole_in_json(shell: Any) -> None:
    shell.fill()
    told, shown = shell("stream", "describe", "orders"), shell("stream", "describe", "orders", "-o", "json")

    lines, document = told[1].splitlines(), json.loads(shown[1])
    assert (told[0], lines[:2]) == (
        0, ["orders: shop.v1.Order in orders of local", "event time: event_time, the column rowtime"],
    )  # fmt: skip
    assert [line.split() for line in lines[2:4]] == [
        ["COLUMN", "TYPE", "PROTOBUF", "EXAMPLE", "VALUES", "COMMENT"],
        [
            "event_time",
            "TIMESTAMP",
            "google.protobuf.Timestamp",
            "event_time",
            "When",
            "it",
            "was",
            "placed.",
        ],
    ]
    assert document["stream"]["name"] == "orders"
    assert document["columns"][0] == {
        "path": "event_time",
        "type": "TIMESTAMP",
        "protobuf_type": "google.protobuf.Timestamp",
        "is_repeated": False,
        "enum_values": {},
        "example": "event_time",
        "comment": "When it was placed.",
    }


def test_a_schema_is_shown_as_text_that_can_be_registered_again(shell: Any) -> None:
    shell.fill()
    text = shell("schema", "show", "shop.v1.Order")[1]
    document = json.loads(shell("schema", "show", "shop.v1.Order", "-o", "json")[1])
    imports = 'import "google/protobuf/timestamp.proto";\nmessage'
    again = shell("schema", "register", shell.file("again.proto", text.replace("message", imports, 1)))

    assert text.startswith('// shop.proto\nsyntax = "proto3";\npackage shop.v1;\n\nmessage Order {\n')
    assert (document["message"], document["text"], again[0]) == ("shop.v1.Order", text, 0)


def test_names_that_are_not_registered_name_the_ones_that_may_be_meant(shell: Any) -> None:
    shell.fill()
    stream, schema = shell("stream", "describe", "order"), shell("schema", "show", "shop.v1.Ordr")
    carries = ("--cluster", "local", "--topic", "t", "--time-field", "event_time")
    registered = shell("stream", "register", "x-stream", *carries, "--message", "shop.v1.Orders")

    assert (stream[0], "did you mean orders?" in stream[2]) == (1, True)
    assert (schema[0], "did you mean shop.v1.Order?" in schema[2]) == (1, True)
    assert (registered[0], "did you mean shop.v1.Order?" in registered[2]) == (1, True)
