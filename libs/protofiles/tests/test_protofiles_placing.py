"""Which source an import means, by which name, and what is wrong with it."""

from __future__ import annotations

from protofiles.imports import Import, scan_imports
from protofiles.placing import Placement, place_sources


def place_texts(sources: dict[str, str], *, roots: tuple[str, ...] = ()) -> Placement:
    return place_sources(
        {path: scan_imports(text) for path, text in sources.items()}, roots, {"google/protobuf/any.proto"}
    )


def problems(sources: dict[str, str]) -> list[tuple[str, int, int, str]]:
    return [(p.file, p.line, p.column, p.reason) for p in place_texts(sources).problems]


def test_imports_are_read_without_a_compiler() -> None:
    source = """
// import "comment.proto";
/* import "other.proto"; */ import "a.proto";
option x = "import 'text.proto';"; import public 'b.proto' ;
message import { string import = 1; import y = 2 [default = "z.proto"]; }
  import /* why */ weak "ä/c.proto"
"""

    assert scan_imports(source) == [
        Import("a.proto", 3, 29), Import("b.proto", 4, 36), Import("ä/c.proto", 6, 3)
    ]  # fmt: skip


def test_the_folder_that_imports_are_from_is_found() -> None:
    result = place_texts(
        {
            "repo/protos/shop/v1/order.proto": 'import "shop/v1/item.proto";',
            "repo/protos/shop/v1/item.proto": 'import "google/protobuf/any.proto";',
        }
    )

    assert set(result.names.values()) == {"shop/v1/order.proto", "shop/v1/item.proto"}
    assert (result.problems, result.missing) == ([], set())


def test_files_that_have_lost_their_folders_are_found_by_their_names() -> None:
    result = place_texts({"order.proto": 'import "shop/v1/item.proto";', "item.proto": ""})

    assert result.names == {"order.proto": "order.proto", "item.proto": "shop/v1/item.proto"}
    assert result.problems == []


def test_the_nearest_of_several_is_meant() -> None:
    result = place_texts(
        {"a/x.proto": 'import "y.proto";', "a/y.proto": "", "b/y.proto": 'import "x.proto";', "b/x.proto": ""}
    )

    assert result.dependencies["a/x.proto"].keys() == {"a/y.proto"}
    assert result.dependencies["b/y.proto"].keys() == {"b/x.proto"}


def test_a_root_comes_before_what_is_near() -> None:
    result = place_texts({"a/x.proto": 'import "y.proto";', "a/y.proto": "", "b/y.proto": ""}, roots=("b",))

    assert result.dependencies["a/x.proto"].keys() == {"b/y.proto"}


def test_missing_imports_are_all_named_with_their_places() -> None:
    sources = {"a.proto": 'import "b.proto";\nimport "../c.proto";', "d.proto": '\n import "b.proto";'}

    assert problems(sources) == [
        ("a.proto", 1, 1, "MISSING_IMPORT"),
        ("a.proto", 2, 1, "INVALID_IMPORT"),
        ("d.proto", 2, 2, "MISSING_IMPORT"),
    ]
    assert place_texts(sources).missing == {"b.proto", "../c.proto"}


def test_a_file_that_is_imported_by_two_names_is_named() -> None:
    sources = {"p/a.proto": 'import "p/b.proto";', "p/b.proto": "", "p/c.proto": '\nimport "b.proto";'}

    assert problems(sources) == [("p/c.proto", 2, 1, "TWO_NAMES")]


def test_two_files_of_one_name_are_named() -> None:
    sources = {
        "a/x.proto": 'import "y.proto";',
        "a/y.proto": "",
        "b/x.proto": 'import "y.proto";',
        "b/y.proto": "",
    }

    assert problems(sources) == [("b/x.proto", 0, 0, "DUPLICATE"), ("b/y.proto", 0, 0, "DUPLICATE")]


def test_each_circle_of_imports_is_named_once() -> None:
    sources = {
        "a.proto": '\nimport "b.proto";',
        "b.proto": 'import "c.proto";',
        "c.proto": 'import "a.proto";',
        "leads.proto": 'import "a.proto";',
        "self.proto": 'import "self.proto";',
        "x.proto": 'import "y.proto";',
        "y.proto": 'import "x.proto"; import "free.proto";',
        "free.proto": "",
    }

    assert problems(sources) == [
        ("a.proto", 2, 1, "IMPORT_CYCLE"),
        ("self.proto", 1, 1, "IMPORT_CYCLE"),
        ("x.proto", 1, 1, "IMPORT_CYCLE"),
    ]
