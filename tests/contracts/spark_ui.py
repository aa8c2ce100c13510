"""What the Spark UI of a driver tells who asks whether it lives."""

from __future__ import annotations

from typing import ClassVar

import httpx
import pytest

from health_monitor.observe import liveness


class SparkUiContract:
    """A subclass brings a fixture `ui`: a client, and the address of the UI of this living launch."""

    DAGGER: ClassVar[str] = "completed_bookings"
    GENERATION: ClassVar[int] = 17

    @pytest.mark.parametrize(
        ("dagger", "generation", "lives"),
        [(DAGGER, GENERATION, True), (DAGGER, GENERATION - 1, False), ("other", GENERATION, False)],
    )
    async def test_it_names_the_launch_that_lives(
        self, ui: tuple[httpx.AsyncClient, str], dagger: str, generation: int, *, lives: bool
    ) -> None:
        client, url = ui

        assert await liveness.answers(client, url, dagger, generation) is lives
