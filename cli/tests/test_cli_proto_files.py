"""What `daggers schema register` takes: sources, folders, archives and descriptor sets of the disk."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from cli.errors import MisusedError, RefusedError
from cli.files.proto_files import load

ITEM = 'syntax = "proto3";\npackage shop.v1;\n// What is sold.\nmessage Item { string name = 1; }\n'
ORDER = """syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "shop/v1/item.proto";
message Order { google.protobuf.Timestamp placed = 1; repeated Item items = 2; }
"""


@pytest.fixture
def protos(tmp_path: Path) -> Path:
    folder = tmp_path / "protos" / "shop" / "v1"
    folder.mkdir(parents=True)
    (folder / "order.proto").write_text(ORDER)
    (folder / "item.proto").write_text(ITEM)
    return tmp_path / "protos"


def names(files: list[Path], imports: list[Path]) -> set[str]:
    return {file.name for file in load(files, imports).files.file} - {"google/protobuf/timestamp.proto"}


def findings(files: list[Path], imports: list[Path]) -> list[tuple[object, object, object]]:
    with pytest.raises(RefusedError) as caught:
        load(files, imports)

    return [(finding["file"], finding["line"], finding["code"]) for finding in caught.value.findings]


def zipped(folder: Path, archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w") as opened:
        for file in sorted(folder.rglob("*")):
            opened.write(file, file.relative_to(folder.parent))
    return archive


def test_a_folder_and_an_archive_are_what_their_files_are(protos: Path, tmp_path: Path) -> None:
    wanted = {"shop/v1/item.proto", "shop/v1/order.proto"}

    assert names([protos], []) == wanted
    assert names([zipped(protos, tmp_path / "shop.zip")], []) == wanted


def test_a_file_that_others_import_has_the_name_that_they_write(protos: Path) -> None:
    files = [protos / "shop/v1/order.proto", protos / "shop/v1/item.proto"]

    assert names(files, [protos]) == {"order.proto", "shop/v1/item.proto"}


def test_an_archive_may_import_what_is_in_a_folder(protos: Path, tmp_path: Path) -> None:
    (protos / "shop/v1/order.proto").rename(tmp_path / "order.proto")
    archive = tmp_path / "order.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.write(tmp_path / "order.proto", "order.proto")

    assert names([archive], [protos]) == {"order.proto", "shop/v1/item.proto"}
    assert findings([archive], []) == [("order.proto", 4, "MISSING_IMPORT")]


def test_a_file_is_called_as_it_was_given(protos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(protos)
    (protos / "shop/v1/item.proto").write_text('syntax = "proto3";\nmessage Item { int32 x; }\n')
    (protos / "bad.proto").write_bytes(b"\n// \xe9")

    assert findings([Path("shop/v1/order.proto"), Path("bad.proto")], [Path()]) == [
        ("bad.proto", 2, "ENCODING"),
        (str(protos / "shop/v1/item.proto"), 2, "PROTOC"),
    ]


def test_imports_that_go_in_a_circle_are_called_as_they_are_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a.proto").write_text('import "b.proto";')
    (tmp_path / "b.proto").write_text('import "a.proto";')

    with pytest.raises(RefusedError, match=f"by way of {tmp_path / 'b.proto'}"):
        load([tmp_path / "a.proto"], [])


def test_a_folder_without_a_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(MisusedError, match=r"has no \.proto file"):
        load([tmp_path], [])


def test_folders_may_be_called_as_they_like(tmp_path: Path) -> None:
    folder = tmp_path / "a:b=c \\ d"
    folder.mkdir()
    (folder / "item.proto").write_text(ITEM)

    assert names([folder / "item.proto"], []) == {"item.proto"}
