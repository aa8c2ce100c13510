"""Rich's console, on which texts of others cannot move the cursor, hide text or ring the bell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich.console
from rich.segment import Segment

from cli.output.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType


class Console(rich.console.Console):
    """Draws as rich does, but escapes invisible characters of texts; rich's own control codes stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable. All drawing goes through here."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
