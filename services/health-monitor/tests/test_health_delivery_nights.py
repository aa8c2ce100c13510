"""Over simulated nights no firing is lost, and none is told twice except across a crash."""

from __future__ import annotations

import pytest
from tests.deliverynights import DeliveryNight


@pytest.mark.parametrize("seed", range(20))
def test_a_night_of_on_call_loses_nothing_and_repeats_nothing(seed: int) -> None:
    assert DeliveryNight(seed).run() == []


@pytest.mark.long
def test_ten_thousand_nights_lose_nothing_and_repeat_nothing() -> None:
    faults = {seed: wrong for seed in range(10_000) if (wrong := DeliveryNight(seed).run())}

    assert faults == {}
