"""Progress of long work, on stderr: a spinner on a terminal, plain lines elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

Report = Callable[[str], None]
PLAIN_INTERVAL_S = 15.0


class Steps:
    """Reports which steps of some work are running, and how long each took. Thread-safe.

    quiet: print nothing.
    """

    def __init__(self, console: "Console", *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._lock = threading.Lock()
        self._status: Status | None = None
        """The spinner, which steps that run at once share."""
        self._running: dict[str, str] = {}
        """Details of the running steps, by title."""

    @contextmanager
    def step(self, title: str) -> Iterator[Report]:
        """Report a step; the yielded function replaces the detail shown beside its title."""
        if self._quiet:
            yield lambda _detail: None
            return
        started = time.monotonic()
        if self._console.is_terminal:
            self._spin(title, "")
            try:
                yield lambda detail: self._spin(title, detail)
            finally:
                self._spin(title, None)
        else:
            yield self._plain(title)
        self._console.print(
            f"[green]✓[/green] {title} [dim]{time.monotonic() - started:.1f} s[/dim]", highlight=False
        )

    def _spin(self, title: str, detail: str | None) -> None:
        """Show the detail of a step beside the others that run; None: it has ended."""
        from rich.markup import escape

        with self._lock:
            if detail is None:
                del self._running[title]
            else:
                self._running[title] = detail
            text = "; ".join(
                f"{name} [dim]{escape(progress)}[/dim]" for name, progress in self._running.items()
            )
            if self._status is None:
                self._status = self._console.status(text)
                self._status.start()
            elif self._running:
                self._status.update(text)
            else:
                self._status.stop()
                self._status = None

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
