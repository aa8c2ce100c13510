"""What the readers of one launch and its driver tell each other: small files in the launch's directory.

Readers are processes of their own, and Spark gives them no way to talk. Each writes its own file, whole, and
reads the others'. Everything here is about one launch; what must survive it stands in the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from chassis.files import replace_text
from runtime.source.planner.idle import Clock

_DRIVER = "_driver.json"


@dataclass(frozen=True, slots=True)
class Word:
    """What a reader says of itself.

    `delay` is its watermark's delay (ms); `silent` that it ticks for itself; `data` the newest event time
    (ms) near the end of its topics, None before its first silence; `complete_from` and `closed` as in
    `Offsets`; `warnings` begin with an UPPER_SNAKE code; `away` is why it cannot reach its topics now, or
    empty.
    """

    delay: int
    silent: bool = False
    data: int | None = None
    complete_from: int = 0
    closed: int = 0
    warnings: tuple[str, ...] = ()
    away: str = ""


class Board:
    """The files of one launch, below `run_dir`."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / "source"

    def say(self, key: str, word: Word) -> None:
        """Publishes the word of the reader `key`."""
        self._write(f"{quote(key, safe='')}.json", {"key": key, **asdict(word)})

    def clear(self) -> None:
        """Takes away what readers of an earlier query of this launch have said."""
        for file in self._folder.glob("*.json"):
            file.unlink()

    def words(self) -> dict[str, Word]:
        """The latest word of every reader, by key."""
        words = {}
        for file in sorted(self._folder.glob("*.json")):
            if file.name != _DRIVER:
                said = json.loads(file.read_text(encoding="utf-8"))
                key, said["warnings"] = said.pop("key"), tuple(said["warnings"])
                words[key] = Word(**said)
        return words

    def note(self, seen: Mapping[str, tuple[int | None, int | None]]) -> None:
        """Remembers for each reader the greatest rowtime its watermark has seen, and of a record (ms)."""
        known = self._seen()
        for key, (reached, data) in seen.items():
            before = known.get(key, (None, None))
            known[key] = (_later(before[0], reached), _later(before[1], data))
        self._write(_DRIVER, known)

    def clocks(self) -> dict[str, Clock]:
        """What is known of every reader, by key."""
        seen = self._seen()
        clocks = {}
        for key, word in self.words().items():
            reached, data = seen.get(key, (None, None))
            clocks[key] = Clock(reached, _later(data, word.data), word.delay, word.silent)
        return clocks

    def _seen(self) -> dict[str, tuple[int | None, int | None]]:
        try:
            text = (self._folder / _DRIVER).read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        return {key: (reached, data) for key, (reached, data) in json.loads(text).items()}

    def _write(self, name: str, form: Mapping[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_text(self._folder / name, json.dumps(form))


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)
