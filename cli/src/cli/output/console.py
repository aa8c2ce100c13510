"""What draws on a terminal: rich's console, on which nothing of what others wrote moves, hides or rings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich.console
from rich.segment import Segment

from cli.output.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType


class Console(rich.console.Console):
    """Draws as rich does, but of texts what can be seen: what rich itself has to say to a terminal it says
    beside them.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The pieces of whatever is printed. All that is drawn goes this way."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
