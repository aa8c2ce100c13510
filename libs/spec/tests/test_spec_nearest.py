"""Which name was meant: near in spelling, begun, or the last part of one with dots."""

import pytest

from daggerspec.nearest import hint, nearest

MESSAGES = ("acme.v1.Booking", "acme.v1.Driver", "acme.payments.v1.Settlement")


@pytest.mark.parametrize(
    ("wrong", "known", "meant"),
    [
        ("citty", ("city", "country"), "city"),
        ("CITY", ("city", "country"), "city"),
        ("lat", ("latitude", "longitude"), "latitude"),
        ("l", ("latitude", "longitude"), None),
        ("zzz", ("latitude", "longitude"), None),
        ("", ("latitude",), None),
        ("latitude", (), None),
    ],
)
def test_a_name_is_meant_that_is_spelt_nearly_so_or_begins_so(
    wrong: str, known: tuple[str, ...], meant: str | None
) -> None:
    assert nearest(wrong, known) == meant


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("Booking", "acme.v1.Booking"),
        ("booking", "acme.v1.Booking"),
        ("Setlement", "acme.payments.v1.Settlement"),
        ("acme.v1.Bookings", "acme.v1.Booking"),
        ("other.Settlement", None),
    ],
)
def test_a_name_without_its_package_means_the_one_with_it(wrong: str, meant: str | None) -> None:
    assert nearest(wrong, MESSAGES) == meant


def test_a_whole_name_is_nearer_than_the_last_part_of_another() -> None:
    assert nearest("booking", ("acme.Booking", "booking")) == "booking"


def test_a_sentence_ends_with_what_was_meant_or_as_it_would_else() -> None:
    assert (hint("city"), hint(None), hint(None, "; x.")) == (": did you mean city?", ".", "; x.")
