"""Write the outcomes of one attempt of a replay, each record's once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from runtime.replay.history import History, QuarantineEntry, name_of
from runtime.replay.topic import OutcomeProducer
from runtime.replay.verdicts import Resolved

_MOST_PENDING: Final = 1_000


class OutcomeWriter:
    """Buffers outcomes and appends them to the quarantine, each record's once over all attempts."""

    def __init__(
        self,
        history: History,
        selected: Sequence[QuarantineEntry],
        producer: OutcomeProducer,
        confirm: Callable[[], None],
    ) -> None:
        self._entries, self._earlier = history.entries, history.outcomes
        self._producer, self._confirm = producer, confirm
        self._pending: dict[str, Resolved] = {}
        self.counts = Counter(
            name_of(self._earlier[record.id]) for record in selected if record.id in self._earlier
        )

    def has_outcomes(self, entries: Iterable[QuarantineEntry]) -> bool:
        """Tell whether earlier attempts have written the outcomes of all these entries."""
        return all(record.id in self._earlier for record in entries)

    def add(self, more: Mapping[str, Resolved]) -> None:
        """Add outcomes by id of the record; they are written with the next `flush` at the latest.

        An outcome that an earlier attempt has written is dropped. Raises: JobError.
        """
        new = {id_: outcome for id_, outcome in more.items() if id_ not in self._earlier}
        self._pending |= new
        self.counts.update(name_of(resolution.outcome) for resolution in new.values())
        if len(self._pending) >= _MOST_PENDING:
            self.flush()

    def flush(self) -> None:
        """Append the pending outcomes, if this attempt may still write. Raises: JobError."""
        if self._pending:
            self._confirm()
            self._producer.produce_outcomes(self._pending, self._entries)
            self._pending = {}
