"""Show the demo while it runs: a live picture on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli.output.sparkline import Series, table
from daggerspec.row import Row

PLAIN_EVERY_S = 5.0
SERIES = 6


@dataclass(frozen=True)
class View:
    """A dagger at an instant: its phase and its rows, newest first."""

    name: str
    phase: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Picture:
    """The demo at an instant."""

    elapsed_s: float
    step: str
    bookings: int
    pings: int
    views: Sequence[View]

    def line(self) -> str:
        """Return the picture in one line."""
        views = "  ".join(f"{view.name} {view.phase} {len(view.rows)} rows" for view in self.views)
        fed = f"{self.bookings} bookings, {self.pings} pings"
        return f"{self.elapsed_s:4.0f} s  {self.step}  {fed}  {views}"


class Display:
    """Shows pictures inside a `with` block."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._last = -PLAIN_EVERY_S

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        """Print a line that stays, above the picture."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, picture: Picture) -> None:
        """Show it, in place of the one before; without a terminal only every few seconds."""
        if self._live:
            self._live.update(_draw(picture), refresh=True)
        elif time.monotonic() - self._last >= PLAIN_EVERY_S:
            self._last = time.monotonic()
            self._console.print(picture.line(), highlight=False, markup=False, soft_wrap=True)


def _draw(picture: Picture) -> Group:
    head = Table.grid(padding=(0, 2))
    fed = f"{picture.bookings} bookings, {picture.pings} pings"
    head.add_row(Text(f"{picture.elapsed_s:.0f} s", style="bold"), Text(picture.step), Text(fed))
    tables = [
        table(f"{view.name}  {view.phase}  {len(view.rows)} rows", Series.collect(view.rows[:2000]), SERIES)
        for view in picture.views
    ]
    return Group(head, *tables)
