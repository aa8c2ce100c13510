"""What is in files that people bring, judged without a compiler."""

from __future__ import annotations

import stat
import struct
import zipfile
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofiles.bundle import MAX_ENTRIES, MAX_FILES, MAX_UNPACKED, UploadedFile, unpack

PROTO = b'syntax = "proto3";\nmessage A {}\n'


def archive(entries: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as opened:
        for name, content in entries.items():
            opened.writestr(name, content)
    return buffer.getvalue()


def reasons(*files: UploadedFile) -> list[tuple[str, str]]:
    return [(problem.file, problem.reason) for problem in unpack(files).problems]


def test_sources_of_an_archive_are_taken_and_the_rest_is_named() -> None:
    content = archive({"p/a.proto": PROTO, "p/README.md": b"#", "__MACOSX/p/._a.proto": b"\0"})

    bundle = unpack([UploadedFile("shop.zip", content)])

    assert (bundle.sources, bundle.left_out) == ({"p/a.proto": PROTO.decode()}, ["p/README.md"])
    assert bundle.problems == []


@pytest.mark.parametrize(
    "path",
    ["../a.proto", "/etc/a.proto", "p/../../a.proto", "C:/a.proto", "p\\a.proto", "p//a.proto", "./a.proto",
     "p/a\n.proto", f"{'x' * 201}.proto", f"{'x/' * 200}a.proto"],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_named(path: str) -> None:
    assert reasons(UploadedFile(path, PROTO)) == [(path, "INVALID_PATH")]
    assert reasons(UploadedFile("a.zip", archive({path: PROTO}))) == [(path, "INVALID_PATH")]


def test_a_path_that_leads_elsewhere_is_named_also_of_what_is_left_out() -> None:
    assert reasons(UploadedFile("a.zip", archive({"../x.sh": b"", "a.proto": PROTO}))) == [
        ("../x.sh", "INVALID_PATH")
    ]


def test_a_link_in_an_archive_is_named() -> None:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        link = zipfile.ZipInfo("link.proto")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        opened.writestr(link, "/etc/passwd")

    assert reasons(UploadedFile("a.zip", buffer.getvalue())) == [("link.proto", "LINK")]


def test_an_archive_that_says_it_is_too_large_is_not_unpacked() -> None:
    bundle = unpack([UploadedFile("a.zip", archive({"a.proto": bytes(MAX_UNPACKED + 1)}))])

    assert [problem.reason for problem in bundle.problems] == ["TOO_LARGE"]
    assert bundle.unpacked == 0


def test_an_archive_that_lies_about_its_size_is_found_out() -> None:
    size = MAX_UNPACKED + 1
    honest = archive({"a.proto": b" " * size})
    small = honest.replace(struct.pack("<L", size), struct.pack("<L", 10))

    assert small != honest
    bundle = unpack([UploadedFile("a.zip", small)])

    assert [problem.reason for problem in bundle.problems] == ["NO_ARCHIVE"]
    assert bundle.unpacked <= MAX_UNPACKED


def test_archives_of_too_many_files_are_named() -> None:
    many = archive({f"{number}.proto": b"" for number in range(MAX_FILES + 1)})
    more = archive({f"{number}.txt": b"" for number in range(MAX_ENTRIES + 1)}, method=zipfile.ZIP_STORED)

    assert reasons(UploadedFile("a.zip", many)) == [("a.zip", "TOO_MANY_FILES")]
    assert reasons(UploadedFile("a.zip", more)) == [("a.zip", "TOO_MANY_FILES")]
    assert reasons(*(UploadedFile(f"{number}.proto", b"") for number in range(MAX_FILES + 1))) == [
        ("", "TOO_MANY_FILES")
    ]


def test_all_that_was_brought_together_has_a_limit() -> None:
    half = b" " * (MAX_UNPACKED // 2)

    assert reasons(*(UploadedFile(name, half) for name in ("a.proto", "b.proto", "c.proto"))) == [
        ("c.proto", "TOO_LARGE")
    ]


def test_an_archive_that_is_damaged_or_encrypted_is_named() -> None:
    whole = archive({"a.proto": PROTO}, method=zipfile.ZIP_STORED)
    damaged = whole.replace(b"message", b"massage", 1)
    directory = whole.index(b"PK\x01\x02")
    encrypted = bytearray(whole)
    encrypted[6] |= 1
    encrypted[directory + 8] |= 1

    assert reasons(UploadedFile("a.zip", whole[:40])) == [("a.zip", "NO_ARCHIVE")]
    assert reasons(UploadedFile("a.zip", damaged)) == [("a.proto", "NO_ARCHIVE")]
    assert reasons(UploadedFile("a.zip", bytes(encrypted))) == [("a.proto", "ENCRYPTED")]


@pytest.mark.parametrize(
    ("content", "line", "column"),
    [
        (b"// one\n// caf\xe9", 2, 7),
        (b"\xef\xbb\xbf// \xff", 1, 4),
        ("// ä\n".encode() + b"\xc3(", 2, 1),
        ("syntax".encode("utf-16"), 1, 1),
        (b"// a\nb\0", 2, 2),
    ],
)
def test_a_text_of_another_encoding_is_named_by_line_and_column(
    content: bytes, line: int, column: int
) -> None:
    (problem,) = unpack([UploadedFile("a.proto", content)]).problems

    assert (problem.reason, problem.line, problem.column) == ("ENCODING", line, column)


def test_a_mark_of_utf8_is_taken_off() -> None:
    assert unpack([UploadedFile("a.proto", b"\xef\xbb\xbf" + PROTO)]).sources == {"a.proto": PROTO.decode()}


def test_what_is_there_twice_is_named_unless_it_is_the_same() -> None:
    same = [UploadedFile("a.proto", PROTO), UploadedFile("a.zip", archive({"a.proto": PROTO}))]

    assert reasons(*same) == []
    assert reasons(*same, UploadedFile("a.proto", PROTO + b" ")) == [("a.proto", "DUPLICATE")]


def test_nothing_at_all_is_named() -> None:
    assert reasons() == reasons(UploadedFile("a.zip", archive({"README.md": b""}))) == [("", "NO_SOURCES")]


@given(
    name=st.sampled_from(["a.proto", "a.zip", "a"]),
    head=st.sampled_from(
        [b"", b"PK\x03\x04", archive({"a.proto": PROTO}), archive({"b.proto": PROTO})[:-20]]
    ),
    rest=st.binary(max_size=200),
    at=st.integers(0, 150),
)
def test_whatever_is_brought_is_taken_or_named(name: str, head: bytes, rest: bytes, at: int) -> None:
    bundle = unpack([UploadedFile(name, head[:at] + rest + head[at:])])

    assert bundle.sources or bundle.sets or bundle.problems
