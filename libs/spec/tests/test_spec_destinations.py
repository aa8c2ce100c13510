"""What each kind of sink writes to: which two of them are one place, and how people write it."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import spec_pb2
from hypothesis import given
from hypothesis import strategies as st
from libs.spec.tests.spec_destinations import CASES
from libs.spec.tests.spec_secrets import Known

from daggerspec import sinks
from daggerspec.destination import Destination, parse
from daggerspec.kind import ValidationContext


def destination(kind: str, said: dict[str, Any]) -> Destination | None:
    """What a sink of the dagger `fares` writes to."""
    spec = spec_pb2.DaggerSpec(cluster="local")
    sink = spec_pb2.Sink(**{kind: said})
    sinks.fill(sink, "fares", spec)
    resolved, _ = sinks.resolve("", sink, ValidationContext("fares", spec, Known()))
    return sinks.destination(resolved)


@pytest.mark.parametrize("kind", sinks.names())
def test_a_kind_says_what_it_writes_to(kind: str) -> None:
    for said, text in CASES[kind]:
        place = destination(kind, said)

        assert ("" if place is None else str(place)) == text
        assert place is None or parse(text) == place


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        ("k://s/c/n", "k://s/c/n", True),
        ("k://s/c/n", "k://s/c/nn", False),
        ("k://s/c/n*", "k://s/c/nn", True),
        ("k://s/c/nn", "k://s/c/n*", True),
        ("k://s/c/n*", "k://s/c/n", True),
        ("k://s/c/nn*", "k://s/c/n", False),
        ("k://s/c/*", "k://s/c/anything", True),
        ("k://s/c/a*", "k://s/c/b*", False),
        ("k://s/c/a*", "k://s/c/ab*", True),
        ("k://s/c/n", "k://s/d/n", False),
        ("k://s/c/n", "k://t/c/n", False),
        ("k://s/c/n", "j://s/c/n", False),
    ],
)  # fmt: skip
def test_two_destinations_are_one_place_where_a_row_can_be_in_both(
    one: str, other: str, overlaps: bool
) -> None:
    assert parse(one).overlaps(parse(other)) is overlaps
    assert parse(other).overlaps(parse(one)) is overlaps


@given(st.builds(Destination, st.from_regex("[a-z]+", fullmatch=True), st.text(), st.text(), st.text(),
                 st.booleans()))  # fmt: skip
def test_the_text_of_a_destination_is_read_as_it(place: Destination) -> None:
    assert parse(str(place)) == place


@pytest.mark.parametrize("text", ["", "k", "k://", "k://s", "k://s/c", "://s/c/n", "k://s/c/n/more"])
def test_what_is_no_destination_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="KIND://SERVER/CONTAINER/NAME"):
        parse(text)
