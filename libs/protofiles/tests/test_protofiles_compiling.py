"""What the compiler's own process makes of files, and says of those that are wrong."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from io import BytesIO

import pytest
from google.protobuf.internal import encoder

from protofiles import Compilation, UploadedFile, compile_files
from protofiles.problems import MAX_PROBLEMS

ITEM = """syntax = "proto3";
package shop.v1;
// What is sold.
message Item {
  // Its price in cents.
  int64 price = 1;
  string name = 2;  // As it is shown.
}
"""
ORDER = """syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "shop/v1/item.proto";
message Order { google.protobuf.Timestamp placed = 1; repeated Item items = 2; }
"""


def compile_sources(sources: Mapping[str, str | bytes]) -> Compilation:
    return compile_files(
        [
            UploadedFile(path, text.encode() if isinstance(text, str) else text)
            for path, text in sources.items()
        ]
    )


def places(sources: Mapping[str, str | bytes]) -> list[tuple[str, int, int, str]]:
    answer = compile_sources(sources)

    assert not answer.files.file
    return [(p.file, p.line, p.column, p.reason) for p in answer.problems]


def zipped(sources: dict[str, str]) -> bytes:
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        for path, text in sources.items():
            opened.writestr(path, text)
    return archive.getvalue()


def test_an_archive_is_compiled_with_its_imports_and_comments() -> None:
    archive = zipped({"x/shop/v1/order.proto": ORDER, "x/shop/v1/item.proto": ITEM, "x/buf.yaml": ""})

    answer = compile_sources({"shop.zip": archive})

    assert (answer.problems, answer.missing, answer.left_out) == ((), (), ("x/buf.yaml",))
    names = [file.name for file in answer.files.file]
    assert names == ["shop/v1/item.proto", "google/protobuf/timestamp.proto", "shop/v1/order.proto"]
    item = answer.files.file[0]
    assert {
        tuple(at.path): (at.leading_comments or at.trailing_comments).strip()
        for at in item.source_code_info.location
    } == {(4, 0): "What is sold.", (4, 0, 2, 0): "Its price in cents.", (4, 0, 2, 1): "As it is shown."}


def test_a_descriptor_set_comes_out_as_it_went_in() -> None:
    answer = compile_sources({"item.proto": ITEM})

    assert compile_sources({"set.pb": answer.files.SerializeToString()}) == answer


def test_everything_that_is_wrong_is_named_at_once_by_file_and_line() -> None:
    sources: dict[str, str | bytes] = {
        "syntax.proto": 'syntax = "proto3";\nmessage A { int32 x = 1 }\nmessag B {}\n',
        "names.proto": 'syntax = "proto3";\nmessage C { Foo foo = 1; Bar bar = 2; }\n',
        "numbers.proto": 'syntax = "proto3";\nmessage F { int32 x = 1; int32 y = 1; }\nmessage F {}\n',
        "missing.proto": 'syntax = "proto3";\nimport "not/anywhere.proto";\nmessage D { Where x = 1; }\n',
        "bad.proto": b"// \xff",
        "one.proto": 'syntax = "proto3"; package p;\nmessage Two { message In {} }\n',
        "two.proto": 'syntax = "proto3"; package p;\n\nenum Two { ZERO = 0; }\n',
        "here.proto": 'syntax = "proto3";\nimport "there.proto";\n',
        "there.proto": 'syntax = "proto3";\n\nimport "here.proto";\n',
        "uses.proto": 'syntax = "proto3";\nimport "syntax.proto";\nmessage E { A a = 1; }\n',
        "noise.bin": b"\xff\xff",
        "../up.proto": ITEM,
    }

    assert places(sources) == [
        ("../up.proto", 0, 0, "INVALID_PATH"),
        ("bad.proto", 1, 4, "ENCODING"),
        ("here.proto", 2, 1, "IMPORT_CYCLE"),
        ("missing.proto", 2, 1, "MISSING_IMPORT"),
        ("names.proto", 2, 13, "PROTOC"),
        ("names.proto", 2, 26, "PROTOC"),
        ("noise.bin", 0, 0, "INVALID_SCHEMA"),
        ("numbers.proto", 2, 36, "PROTOC"),
        ("numbers.proto", 3, 9, "PROTOC"),
        ("syntax.proto", 2, 25, "PROTOC"),
        ("syntax.proto", 3, 1, "PROTOC"),
        ("two.proto", 3, 6, "DEFINED_TWICE"),
    ]


def test_a_symbol_that_only_both_files_together_define_twice_is_named() -> None:
    head = 'syntax = "proto3"; package p;\n'
    sources = {"a.proto": head + "enum A { UNKNOWN = 0; }", "b.proto": head + "enum B { UNKNOWN = 0; }"}

    (problem,) = compile_sources(sources).problems

    assert (problem.file, problem.line, problem.reason) == ("b.proto", 2, "PROTOC")
    assert "UNKNOWN" in problem.message


def test_a_name_is_no_word_of_the_compiler() -> None:
    answer = compile_sources(
        {"-Ix.proto": ITEM, "@y.proto": 'syntax = "proto3"; message Y {}', "ab:c=d.proto": ""}
    )

    assert {file.name for file in answer.files.file} == {"-Ix.proto", "@y.proto", "ab:c=d.proto"}


def test_a_file_that_is_called_as_a_folder_is_named() -> None:
    assert places({"a.proto": ITEM, "a.proto/b.proto": ""}) == [("a.proto/b.proto", 0, 0, "INVALID_PATH")]


def test_googles_own_files_are_there_whoever_brings_them() -> None:
    answer = compile_sources(
        {"google/protobuf/timestamp.proto": "no proto at all", "shop/v1/item.proto": ITEM, "o.proto": ORDER}
    )

    assert answer.problems == ()


def test_messages_in_messages_without_end_are_named() -> None:
    reasons = {reason for *_, reason in places({"deep.proto": "message A {" * 5_000})}

    assert reasons == {"PROTOC"}


def test_a_descriptor_set_that_unfolds_in_memory_ends_as_a_problem() -> None:
    """Each two bytes are a message of some hundred in memory."""
    empty_messages = b"\x22\x00" * 4_000_000
    file = b"\x0a" + encoder._VarintBytes(len(empty_messages)) + empty_messages

    assert [reason for *_, reason in places({"set.pb": file})] == ["TOO_COSTLY"]
    assert [reason for *_, reason in places({"set.pb": b"\x0a\x00" * 5_001})] == ["TOO_MANY_FILES"]


def test_of_very_many_problems_the_rest_is_counted() -> None:
    answer = compile_sources({"a.proto": "".join(f'import "m{n}.proto";\n' for n in range(1_000))})

    assert len(answer.problems) == MAX_PROBLEMS
    assert answer.problems[-1].message == "and 801 more problems"


@pytest.mark.parametrize("name", ["a.proto", "b.txt"])
def test_nothing_in_a_file_is_no_accident(name: str) -> None:
    answer = compile_sources({name: ""})

    assert [problem.reason for problem in answer.problems] == (
        [] if name == "a.proto" else ["INVALID_SCHEMA"]
    )
