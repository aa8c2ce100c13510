"""What one attempt of a replay says became of records, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from runtime.replay.history import History, Kept, name_of
from runtime.replay.topic import Outcomes
from runtime.replay.verdicts import Resolved

_SAID_AT_ONCE: Final = 1_000


class Said:
    """Says what became of records, each once."""

    def __init__(
        self,
        history: History,
        meant: Sequence[Kept],
        outcomes: Outcomes,
        confirm: Callable[[], None],
    ) -> None:
        self._kept, self._before = history.kept, history.outcomes
        self._outcomes, self._confirm = outcomes, confirm
        self._waiting: dict[str, Resolved] = {}
        self.counts = Counter(
            name_of(self._before[record.id]) for record in meant if record.id in self._before
        )

    def has(self, kept: Iterable[Kept]) -> bool:
        """Whether an attempt before has said what became of all of these."""
        return all(record.id in self._before for record in kept)

    def add(self, more: Mapping[str, Resolved]) -> None:
        """Say this, at the latest with `all`."""
        new = {id_: outcome for id_, outcome in more.items() if id_ not in self._before}
        self._waiting |= new
        self.counts.update(name_of(resolution.outcome) for resolution in new.values())
        if len(self._waiting) >= _SAID_AT_ONCE:
            self.all()

    def all(self) -> None:
        """Say all that is waiting. Raises: JobError."""
        if self._waiting:
            self._confirm()
            self._outcomes.say(self._waiting, self._kept)
            self._waiting = {}
