"""Durations as a person reads them."""

from datetime import timedelta

import pytest

from chassis.durations import format_span, rough


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(seconds=-3), "0 s"),
        (timedelta(milliseconds=999), "0 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(minutes=1), "1 min"),
        (timedelta(minutes=2, seconds=43), "2 min 43 s"),
        (timedelta(hours=1, seconds=59), "1 h"),
        (timedelta(hours=5, minutes=7, seconds=8), "5 h 7 min"),
        (timedelta(days=2, minutes=59), "2 d"),
        (timedelta(days=2, hours=3, minutes=59), "2 d 3 h"),
    ],
)
def test_a_duration_is_told_by_its_two_greatest_units(span: timedelta, text: str) -> None:
    assert format_span(span) == text


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(seconds=-3), "0 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(minutes=2, seconds=43), "2 min"),
        (timedelta(hours=23, minutes=59), "23 h"),
        (timedelta(days=2, hours=3), "2 d"),
    ],
)
def test_a_rough_duration_is_told_by_its_greatest_unit(span: timedelta, text: str) -> None:
    assert rough(span) == text
