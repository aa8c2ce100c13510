"""A change of the schema that breaks a client, a record or a file of somebody is refused by its rule."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

PROTO_ROOT = Path(__file__).parents[1]
BUF = Path(sys.executable).with_name("buf")
SCHEMA = """\
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
message Order {
  reserved 8, 9;
  reserved "coupon";
  int64 price = 2;
  repeated string tags = 3;
  string city = 1;
  oneof payer { string card = 4; string account = 5; }
  Status status = 6;
  google.protobuf.Timestamp at = 7;
}
enum Status { STATUS_UNKNOWN = 0; STATUS_OPEN = 1; STATUS_CLOSED = 2; }
enum Kind { KIND_UNKNOWN = 0; }
message Answer { string id = 1; }
message Other { string id = 1; }
service Shop {
  rpc Put(Order) returns (Answer);
  rpc Watch(Answer) returns (stream Order);
}
"""
CITY, PAYER, OPEN = "  string city = 1;\n", "  oneof payer {", " STATUS_OPEN = 1;"
VALUE_DELETED = "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED"
DELETED, UNNAMED = "FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED", "FIELD_NO_DELETE_UNLESS_NAME_RESERVED"
BREAKS = [
    ("a field is removed", CITY, "", {DELETED, UNNAMED}),
    ("its number may come again", CITY, '  reserved "city";\n', {DELETED}),
    ("its name may come again", CITY, "  reserved 1;\n", {UNNAMED}),
    ("a field has another number", "city = 1", "city = 10", {DELETED, UNNAMED}),
    ("a number is used again", "city = 1", "town = 1", {"FIELD_SAME_NAME", "FIELD_SAME_JSON_NAME"}),
    ("a field has another type", "int64 price", "string price", {"FIELD_WIRE_JSON_COMPATIBLE_TYPE"}),
    ("its JSON differs", "int64 price", "int32 price", {"FIELD_WIRE_JSON_COMPATIBLE_TYPE"}),
    ("one becomes many", "string city", "repeated string city", {"FIELD_WIRE_JSON_COMPATIBLE_CARDINALITY"}),
    ("many become one", "repeated string tags", "string tags", {"FIELD_WIRE_JSON_COMPATIBLE_CARDINALITY"}),
    ("its name in JSON", "city = 1", 'city = 1 [json_name = "town"]', {"FIELD_SAME_JSON_NAME"}),
    ("a field leaves its oneof", "string account = 5; }", "} string account = 5;", {"FIELD_SAME_ONEOF"}),
    ("a field joins a oneof", CITY + PAYER, PAYER + CITY, {"FIELD_SAME_ONEOF"}),
    ("a reserved number", "reserved 8, 9;", "reserved 8;", {"RESERVED_MESSAGE_NO_DELETE"}),
    ("a reserved name", '  reserved "coupon";\n', "", {"RESERVED_MESSAGE_NO_DELETE"}),
    ("an enum value is removed", OPEN, "", {VALUE_DELETED}),
    ("an enum value has another number", OPEN, " STATUS_OPEN = 5;", {VALUE_DELETED}),
    ("an enum value has another name", "STATUS_OPEN", "STATUS_NEW", {"ENUM_VALUE_SAME_NAME"}),
    ("a message is removed", "message Other { string id = 1; }", "", {"PACKAGE_MESSAGE_NO_DELETE"}),
    ("an enum is removed", "enum Kind {", "enum Sort {", {"PACKAGE_ENUM_NO_DELETE"}),
    ("a service is removed", "service Shop", "service Store", {"PACKAGE_SERVICE_NO_DELETE"}),
    ("an RPC is removed", "rpc Put", "rpc Add", {"RPC_NO_DELETE"}),
    ("an RPC takes something else", "Watch(Answer)", "Watch(Other)", {"RPC_SAME_REQUEST_TYPE"}),
    ("an RPC answers something else", "returns (Answer)", "returns (Other)", {"RPC_SAME_RESPONSE_TYPE"}),
    ("an RPC takes a stream", "Put(Order)", "Put(stream Order)", {"RPC_SAME_CLIENT_STREAMING"}),
    ("an RPC answers one", "stream Order);\n}", "Order);\n}", {"RPC_SAME_SERVER_STREAMING"}),
    ("the package is another", "package shop.v1", "package shop.v2", {"FILE_SAME_PACKAGE"}),
]  # fmt: skip
ADDITIONS = [
    ("a field", "string city = 1;", "string city = 1; string town = 10;"),
    ("a field that is gone for good", CITY, '  reserved 1;\n  reserved "city";\n'),
    ("an enum value", OPEN, f"{OPEN} STATUS_LATE = 3;"),
    ("a message", "message Other", "message More {}\nmessage Other"),
    ("an RPC", "rpc Put", "rpc Get(Answer) returns (Order);\n  rpc Put"),
    ("a kind of a oneof", PAYER, f"{PAYER} string voucher = 10;"),
]
MODULES: list[dict[str, Any]] = [
    file
    for file in yaml.safe_load((PROTO_ROOT / "baseline.yaml").read_text())["file"]
    if file["name"].startswith("daggers/")
]


def broken(folder: Path, **files: str) -> set[str]:
    """The rules that a schema of these files breaks where SCHEMA was shop.proto."""
    for side, content in (("before", {"shop": SCHEMA}), ("after", files)):
        (folder / side).mkdir()
        (folder / side / "buf.yaml").write_text((PROTO_ROOT / "buf.yaml").read_text())
        for name, text in content.items():
            (folder / side / f"{name}.proto").write_text(text)
    done = subprocess.run(
        [BUF, "breaking", "after", "--against", "before", "--error-format", "json"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) in {(0, ""), (100, "")}
    return {yaml.safe_load(line)["type"] for line in done.stdout.splitlines()}


@pytest.mark.parametrize(
    ("old", "new", "rules"), [case[1:] for case in BREAKS], ids=[case[0] for case in BREAKS]
)
def test_a_break_is_refused_by_its_rule(old: str, new: str, rules: set[str], tmp_path: Path) -> None:
    found = broken(tmp_path, shop=SCHEMA.replace(old, new))

    assert rules <= found


@pytest.mark.parametrize(
    ("old", "new"), [case[1:] for case in ADDITIONS], ids=[case[0] for case in ADDITIONS]
)
def test_an_addition_is_no_break(old: str, new: str, tmp_path: Path) -> None:
    assert broken(tmp_path, shop=SCHEMA.replace(old, new)) == set()


def test_what_moves_to_another_file_of_the_package_is_no_break(tmp_path: Path) -> None:
    answer = "message Answer { string id = 1; }"
    rest = SCHEMA.replace(answer, "").replace("package shop.v1;", 'package shop.v1;\nimport "answer.proto";')
    moved = f'syntax = "proto3";\npackage shop.v1;\n{answer}'

    assert broken(tmp_path, shop=rest, answer=moved) == set()


def test_a_file_that_is_gone_is_a_break(tmp_path: Path) -> None:
    assert broken(tmp_path, store=SCHEMA) == {"FILE_NO_DELETE"}


@pytest.mark.parametrize("file", MODULES, ids=[file["name"] for file in MODULES])
def test_a_module_has_every_name_that_clients_may_import_from_it(file: dict[str, Any]) -> None:
    name = file["name"].removesuffix(".proto").replace("/", ".")
    messages, stubs = import_module(f"{name}_pb2"), import_module(f"{name}_pb2_grpc")
    wanted = [each["name"] for kind in ("messageType", "enumType") for each in file.get(kind, [])]
    served = [f"{each['name']}Stub" for each in file.get("service", [])]

    assert [name for name in wanted if not hasattr(messages, name)] == []
    assert [name for name in served if not hasattr(stubs, name)] == []
