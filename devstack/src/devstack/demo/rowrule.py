"""The demo's second act: a rule on rows of the bookings fires when a concert ends, and is over behind it."""

from daggers.v1 import rules_pb2, spec_pb2

from devstack.demo.city import CONCERT_BOOKINGS, CONCERT_S

NAME = "crowd"
LASTS_S = CONCERT_S[1] + 10
"""Least time that the demo must feed, so that there is a window after the concert."""


class RowRule:
    """From the rule's firing to its end; `step` looks at what on-call was told."""

    def __init__(self, dagger: str) -> None:
        self._key = f"[daggers/{dagger}/rule/{NAME}/"
        self._left = ["triggered", "resolved"]

    @property
    def over(self) -> bool:
        """True if the rule fired and resolved."""
        return not self._left

    def step(self, lines: list[str]) -> None:
        """Look for the turn of its alert that comes next."""
        for line in lines:
            if self._left and self._key in line and self._left[0] in line:
                del self._left[0]


def add_rule(spec: spec_pb2.DaggerSpec) -> None:
    """Give a dagger that counts bookings by city and cell the rule."""
    limit = CONCERT_BOOKINGS // 2
    spec.alerts.add(
        name=NAME,
        when=f"num_of_bookings > {limit}",
        key=["tag_city_id"],
        severity=rules_pb2.RULE_SEVERITY_ERROR,
        summary="{num_of_bookings:,} bookings of one cell in city {tag_city_id}: send drivers there",
    )
