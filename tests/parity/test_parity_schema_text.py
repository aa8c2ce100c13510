"""`schema show`: protoc makes of its text the descriptor that is registered."""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path
from random import Random
from typing import Final

import grpc_tools
import pytest
from google.protobuf import descriptor_pb2 as dp
from grpc_tools import protoc
from services.runtime.tests import wireschemas

from api_gateway.validate import proto_text, schemas

SEEDS: Final = 120
"""Those of the test of wire forms."""
FRESH_S: Final = 120.0
_KNOWN: Final = Path(grpc_tools.__file__).with_name("_proto")
_OPTIONS: Final = """\
syntax = "proto3";
package rules;
import "google/protobuf/descriptor.proto";
message Rule { int32 least = 1; string pattern = 2; repeated string among = 3; Rule inner = 4; }
extend google.protobuf.FieldOptions { Rule rule = 50001; repeated string tags = 50002; }
extend google.protobuf.MessageOptions { bool audited = 50003; }
extend google.protobuf.EnumValueOptions { string label = 50004; }
"""
SOURCES: Final = {
    "proto2": r"""
syntax = "proto2";
package a.b;
import "google/protobuf/timestamp.proto";
option java_package = "com.example.\"x\"";
option optimize_for = SPEED;
enum Level {
  option allow_alias = true;
  LOW = 1; MIN = 1 [deprecated = true]; HIGH = -2;
  reserved 5, 7 to 9, 100 to max; reserved "OLD";
}
message Root {
  required int32 id = 1 [json_name = "identity"];
  optional string unit = 2 [default = "a \"piece\"\\ \n\303\274"];
  optional bytes raw = 3 [default = "\000\377\"x"];
  optional double d = 4 [default = -inf];
  optional float f = 5 [default = nan];
  optional Level level = 6 [default = HIGH];
  optional group Line = 7 { optional string sku = 1; repeated group Part = 2 { optional int32 n = 1; } }
  message Before { optional int32 x = 1; }
  map<string, Before> by_name = 8;
  message After { optional Before before = 1; }
  oneof choice { int32 a = 9; group Choice_B = 10 { optional int32 y = 1; } string c = 11 [default = "z"]; }
  repeated int32 packed = 12 [packed = true];
  optional .a.b.Root.After after = 13;
  optional google.protobuf.Timestamp at = 14;
  optional uint64 big = 15 [default = 18446744073709551615, deprecated = true];
  optional int64 text = 16 [jstype = JS_STRING];
  extensions 100 to 200, 1000 to max;
  reserved 20, 30 to 40; reserved "gone", "lost";
  extend Root { optional Before nested_extension = 101; }
}
message a {
  message b { optional int32 trap = 1; }
  optional b inner = 1; optional .a.b.Level level = 2; optional Root root = 3;
}
extend Root {
  optional string outside = 100 [default = "o"];
  optional group Wide = 102 { optional int32 w = 1; }
}
""",
    "proto3": """
syntax = "proto3";
package shop;
import "rules.proto";
import public "google/protobuf/struct.proto";
message Root {
  option (rules.audited) = true;
  optional int32 x = 1 [(rules.rule) = {least: 1 pattern: "a\\"b" among: ["x", "y"] inner {least: 2}}];
  oneof either { string y = 2; Root z = 3; }
  map<int32, Kind> kinds = 4 [(rules.tags) = "a", (rules.tags) = "b"];
  repeated bytes n = 5;
  optional string late = 6;
  repeated int32 loose = 7 [packed = false];
  google.protobuf.Struct extra = 8;
  reserved 9 to 11;
}
enum Kind { NONE = 0 [(rules.label) = "no \\n kind"]; SOME = 1; }
""",
    "2023": """
edition = "2023";
package e23;
option features.message_encoding = DELIMITED;
option features.enum_type = CLOSED;
message Root {
  int32 implicit = 1 [features.field_presence = IMPLICIT];
  int32 required = 2 [features.field_presence = LEGACY_REQUIRED];
  string plain = 3 [default = "x"];
  Root below = 4;
  Root prefixed = 5 [features.message_encoding = LENGTH_PREFIXED];
  repeated Kind kinds = 6 [features.repeated_field_encoding = EXPANDED];
  map<string, Root> by_name = 7;
  string loose = 8 [features.utf8_validation = NONE];
  reserved gone, lost;
  extensions 100 to 110 [verification = UNVERIFIED];
}
enum Kind { ONE = 1; TWO = 2; reserved OLD; }
enum Open { option features.enum_type = OPEN; ZERO = 0; }
""",
    "2024": """
edition = "2024";
package e24;
message Root { Hidden hidden = 1; Seen.Inner inner = 2; }
local message Hidden { string x = 1; }
export message Seen { export message Inner { int32 n = 1; } local enum Sort { SORT_UNSPECIFIED = 0; } }
""",
}


def compiled(folder: Path, files: dict[str, str]) -> dp.FileDescriptorSet:
    """What protoc makes of these files, all they import included, in the order of imports."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    out = folder / "out.bin"
    words = [f"-I{folder}", f"-I{_KNOWN}", "--include_imports", f"--descriptor_set_out={out}", *files]
    assert protoc.main(["", *words]) == 0, "\n".join(files.values())
    return dp.FileDescriptorSet.FromString(out.read_bytes())


def shown(files: dp.FileDescriptorSet, message: str) -> dict[str, str]:
    """The text of each file that `schema show` prints."""
    texts: dict[str, str] = {}
    for part in proto_text.message(files, message).split("\n// "):
        name, _, text = part.removeprefix("// ").partition("\n")
        texts[name] = text
    return texts


def of(files: dp.FileDescriptorSet, name: str) -> dp.FileDescriptorProto:
    """One file, without the names in JSON that protoc derives."""
    found = next(file for file in files.file if file.name == name)
    copy = dp.FileDescriptorProto.FromString(found.SerializeToString())
    for message in copy.message_type:
        _without_json_names(message)
    for extension in copy.extension:
        extension.ClearField("json_name")
    return copy


def part(file: dp.FileDescriptorProto, shown_: dp.FileDescriptorProto) -> dp.FileDescriptorProto:
    """What is shown of a file: of what else stands in it, and of imports for that, a message says nothing."""
    own, named = dp.FileDescriptorProto.FromString(file.SerializeToString()), {""}
    named |= {declared.name for declared in (*shown_.message_type, *shown_.enum_type)}
    for declared in (*file.message_type, *file.enum_type):
        if declared.name not in named:
            (own.message_type if declared in own.message_type else own.enum_type).remove(declared)
    for number, name in reversed([*enumerate(file.dependency)]):
        if name not in shown_.dependency:
            del own.dependency[number]
    return own


def _without_json_names(message: dp.DescriptorProto) -> None:
    for field in (*message.field, *message.extension):
        if field.json_name != "identity":
            field.ClearField("json_name")
    for nested in message.nested_type:
        _without_json_names(nested)


@pytest.mark.parametrize("name", SOURCES)
def test_of_what_is_shown_protoc_makes_what_is_registered(tmp_path: Path, name: str) -> None:
    source = compiled(tmp_path / "one", {"rules.proto": _OPTIONS, "root.proto": SOURCES[name]})
    registered = schemas.prune(source).files
    root = next(f"{file.package}.Root" for file in registered.file if file.name == "root.proto")
    text = shown(registered, root)["root.proto"]
    if name == "proto2":  # `a` refers to Root, which nobody asked for
        text = shown(registered, "a.b.a")["root.proto"]

    again = compiled(tmp_path / "two", {"rules.proto": _OPTIONS, "root.proto": text})

    first, original = of(again, "root.proto"), of(registered, "root.proto")

    assert str(first) == str(part(original, first))


def difference(folder: Path, seed: int) -> str:
    """What protoc makes of the text of a seed's schema, where that is another one; "" else."""
    registered = schemas.prune(wireschemas.schema(Random(seed))).files
    again = compiled(folder, shown(registered, "wire.Root"))
    first, original = of(again, "wire.proto"), of(registered, "wire.proto")
    wanted = part(original, first)
    return "" if str(first) == str(wanted) else f"seed {seed}:\n{first}\nregistered:\n{wanted}"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_schema_comes_back(tmp_path: Path, seed: int) -> None:
    assert difference(tmp_path, seed) == ""


@pytest.mark.long
@pytest.mark.timeout(FRESH_S + 120)
def test_every_fresh_schema_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    until, looked_at, found = time.monotonic() + FRESH_S, 0, ""
    while time.monotonic() < until and not found:
        found = difference(tmp_path, secrets.randbits(48))
        looked_at += 1
    with capsys.disabled():
        sys.stdout.write(f"\n{looked_at} fresh schemas, shown and compiled\n")

    assert found == ""
