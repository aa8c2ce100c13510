"""Look before you write: what streams and schemas hold, at the command line."""

import json
from typing import Any


def test_a_stream_is_described_in_a_table_and_whole_in_json(shell: Any) -> None:
    shell.fill()
    told = shell("stream", "describe", "orders", "-o", "wide")
    shown = shell("stream", "describe", "orders", "-o", "json")

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


def test_where_no_host_looks_at_the_topics_a_stream_is_described_and_that_is_said(shell: Any) -> None:
    shell.fill()
    code, out, err = shell("stream", "describe", "orders", "--topics", "-o", "json")
    document = json.loads(out)

    assert (code, document["partitions"], document["records_per_second"]) == (0, None, None)
    assert document["topics_unchecked"].startswith("no scheduler has said where it serves")
    assert document["topics_unchecked"] in err


def test_a_stream_is_described_in_lines_that_fit(shell: Any) -> None:
    names = [f"STATE_OF_MANY_{n}" for n in range(40)]
    values = " ".join(f"{name} = {n};" for n, name in enumerate(names))
    schema = (
        'syntax = "proto3"; package wide; import "google/protobuf/timestamp.proto";\n'
        f"enum State {{ {values} }}\nmessage Row {{ google.protobuf.Timestamp at = 1;\n"
        "  // Where it is.\n  State state = 2;\n  string city = 3; // Of the pick-up.\n}\n"
    )
    shell.fill()
    shell("schema", "register", shell.file("wide.proto", schema))
    carries = ("--cluster", "local", "--topic", "t", "--time-field", "at")
    shell("stream", "register", "wide", *carries, "--message", "wide.Row")
    lines, whole = (shell("stream", "describe", "wide", *more)[1] for more in ((), ("-o", "wide")))
    told = [line.split(maxsplit=1) for line in lines.splitlines()[2:]]

    assert [name for name, _ in told[:4]] == ["COLUMN", "at", "state", "city"]
    assert max(map(len, lines.splitlines())) <= 150
    assert ("STATE_OF_MANY_0, STATE_OF_MANY_1," in told[2][1], told[2][1][-1]) == (True, "…")
    assert told[3][1].endswith("Of the pick-up.")
    assert "STATE_OF_MANY_39=39" in whole
    assert "Where it is." in whole


def test_a_schema_is_shown_as_text_that_can_be_registered_again(shell: Any) -> None:
    shell.fill()
    text = shell("schema", "show", "shop.v1.Order")[1]
    document = json.loads(shell("schema", "show", "shop.v1.Order", "-o", "json")[1])
    again = shell("schema", "register", shell.file("again.proto", text))

    assert text.startswith(
        '// shop.proto\nsyntax = "proto3";\npackage shop.v1;\n\nimport "google/protobuf/timestamp.proto";\n\n'
        "message Order {\n"
    )
    assert "  // When it was placed.\n  google.protobuf.Timestamp event_time = 1;\n" in text
    assert shell("schema", "show", "shop.v1.Order")[1] == text.replace("shop.proto", "again.proto", 1)
    assert (document["message"], document["text"], again[0]) == ("shop.v1.Order", text, 0)


def test_a_schema_is_shown_with_its_comments_and_imports_wherever_they_stand(shell: Any) -> None:
    deep = (
        'syntax = "proto3"; package deep; import public "google/protobuf/duration.proto";\n'
        "message Item { message Price {\n// In its\n// currency.\ndouble amount = 1; }\n"
        "oneof either { string a = 1; Price b = 2; // Or this.\n } }\n"
    )
    cart = (
        'syntax = "proto3"; package cart; import "deep.proto"; import "google/protobuf/timestamp.proto";\n'
        "message Cart { repeated deep.Item items = 1; map<string, google.protobuf.Duration> waits = 2; }\n"
    )
    shell.file("deep.proto", deep)
    registered = shell("schema", "register", shell.file("cart.proto", cart))
    text = shell("schema", "show", "cart.Cart")[1]

    assert registered[0] == 0
    assert text.split("\n\n// ")[0].splitlines()[:10] == [
        "// deep.proto",
        'syntax = "proto3";',
        "package deep;",
        "",
        'import public "google/protobuf/duration.proto";',
        "",
        "message Item {",
        "  message Price {",
        "    // In its currency.",
        "    double amount = 1;",
    ]
    assert "    // Or this.\n    Item.Price b = 2;\n" in text
    imports = 'import "deep.proto";\nimport "google/protobuf/timestamp.proto";\n'
    assert f"package cart;\n\n{imports}\nmessage Cart {{\n" in text


def test_names_that_are_not_registered_name_the_ones_that_may_be_meant(shell: Any) -> None:
    shell.fill()
    stream, schema = shell("stream", "describe", "order"), shell("schema", "show", "shop.v1.Ordr")
    carries = ("--cluster", "local", "--topic", "t", "--time-field", "event_time")
    registered = shell("stream", "register", "x-stream", *carries, "--message", "shop.v1.Orders")

    assert (stream[0], "did you mean orders?" in stream[2]) == (1, True)
    assert (schema[0], "did you mean shop.v1.Order?" in schema[2]) == (1, True)
    assert (registered[0], "did you mean shop.v1.Order?" in registered[2]) == (1, True)
