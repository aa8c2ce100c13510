"""The ratchet for names: those that do not say what they stand for become fewer, package by package."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from tests.documents import name_counts
from tests.documents.name_counts import MEASURES, committed, compare, counts, find, find_generic


def measured(source: str) -> Counter[str]:
    return Counter(name.measure for name in find("x.py", ast.parse(source)))


def test_no_count_has_risen() -> None:
    assert compare(counts(), committed()) == []


def test_counts_that_fell_are_committed() -> None:
    assert counts() == committed(), "fewer than before: run `make names-count`, and commit names.json"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("told = 1", {"bindings": 1}),
        ("def run(told, *, asked): self.held = told", {"bindings": 3}),
        ("class Row:\n    kept: int", {"bindings": 1}),
        ("marks = Table('marks', Column('refused'), Column('held'))", {"bindings": 1}),
        ("match x:\n    case Part(told): run(told)", {"bindings": 1}),
        ("run(told=asked)", {}),
        ("def asked(): ...", {"functions": 1}),
        ("async def _written(): ...", {"functions": 1}),
        ("def is_asked(): ...\ndef closed() -> bool: ...", {}),
        ("class A:\n    @property\n    def closed(self): ...", {}),
        ("def read(): ...\ndef put(): ...\ndef feed(): ...\ndef append_written(): ...", {}),
        ("class Told: ...\nclass _Heard: ...", {"classes": 2}),
        ("class AddressRefused: ...", {}),
        ("def run():\n    'What becomes of it.'", {"docstrings": 1}),
        ("def run():\n    'The rows.'", {"docstrings": 1}),
        ("def run():\n    'Return the rows.'", {}),
        ("class A:\n    'The rows of a table.'", {}),
        ("class A:\n    'What a sink is a part of.'", {"docstrings": 1}),
        ("class A:\n    rows: int\n    'How many.'", {"docstrings": 1}),
        ("'The same, of a stream.'", {"docstrings": 1}),
    ],
)
def test_each_measure_counts_its_names_and_no_others(source: str, expected: dict[str, int]) -> None:
    assert measured(source) == expected


def test_a_name_that_three_classes_have_is_generic() -> None:
    places = [("a.py", 1), ("b.py", 1), ("c.py", 1)]
    names = {"Reader": places, "Writer": places[:2], "RowReader": places}

    assert [name.name for name in find_generic(names)] == ["Reader"] * 3


def test_a_count_that_rose_is_named_with_its_package() -> None:
    [sentence] = compare({"fleet": {"classes": 2, "functions": 1}}, {"fleet": {"classes": 1, "functions": 1}})

    assert sentence.startswith(
        "fleet: 2 classes, 1 are allowed: `python -m tests.documents.name_counts fleet`"
    )


def test_a_new_package_has_nothing_to_count() -> None:
    assert len(compare({"new": dict.fromkeys(MEASURES, 1)}, {})) == len(MEASURES)


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("services/api-gateway/src/api_gateway/rpc/catalog.py", "api_gateway"),
        ("services/api-gateway/tests/test_gateway.py", "tests"),
        ("conftest.py", "tests"),
        ("bench/seed.py", "bench"),
        ("deploy/release.py", None),
    ],
)
def test_a_file_is_counted_with_its_package(file: str, package: str | None) -> None:
    assert name_counts.package_of(file) == package
