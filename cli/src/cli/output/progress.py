"""Progress of long work, on stderr: a spinner on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Report = Callable[[str], None]
PLAIN_INTERVAL_S = 15.0


class Steps:
    """Reports which step of some work is running, and how long each took.

    quiet: print nothing.
    """

    def __init__(self, console: "Console", *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet

    @contextmanager
    def step(self, title: str) -> Iterator[Report]:
        """Report a step; the yielded function replaces the detail shown beside its title."""
        if self._quiet:
            yield lambda _detail: None
            return
        started = time.monotonic()
        if self._console.is_terminal:
            from rich.markup import escape

            with self._console.status(title) as status:
                yield lambda detail: status.update(f"{title} [dim]{escape(detail)}[/dim]")
        else:
            yield self._plain(title)
        self._console.print(
            f"[green]✓[/green] {title} [dim]{time.monotonic() - started:.1f} s[/dim]", highlight=False
        )

    def note(self, text: str) -> None:
        """Print a line beside the steps."""
        if not self._quiet:
            self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def _plain(self, title: str) -> Report:
        last = time.monotonic()

        def report(detail: str) -> None:
            nonlocal last
            if time.monotonic() - last >= PLAIN_INTERVAL_S:
                last = time.monotonic()
                self._console.print(f"… {title} {detail}", highlight=False, soft_wrap=True, markup=False)

        return report
