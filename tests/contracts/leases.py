"""What a store promises the lease that is kept in it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest


class StoreContract:
    """A subclass brings a fixture `stores`: makes a store in which no lease was ever taken, by a call."""

    def test_nobody_holds_a_lease_that_was_never_taken(self, stores: Any) -> None:
        assert stores().read() == 0

    def test_who_takes_it_holds_it_and_may_take_it_again(self, stores: Any) -> None:
        store = stores()

        assert (store.take(7), store.read(), store.take(7), store.read()) == (7, 7, 7, 7)

    @pytest.mark.parametrize("generations", list(permutations((9, 10, 101))))
    def test_the_newest_generation_holds_it_in_whatever_order_they_come(
        self, stores: Any, generations: tuple[int, ...]
    ) -> None:
        store = stores()

        held = [store.take(generation) for generation in generations]

        assert held == [max(generations[: count + 1]) for count in range(len(generations))]
        assert store.read() == 101
