"""Sketches of the usual numbers of a launch (`outside`), their files, and the answers of rules.

A batch is answered in the driver, window by window. Its numbers are stored beside the checkpoints behind what
rules observed in it, and before Spark commits. Where a batch is repeated, rules pass over the windows that
they have judged, and the sketches take what was not stored. There is a file for each hour of the season, and
one for the hours that go on, which is written last.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from chassis.logging import logger
from daggerspec.alertrules import MOST_KEYS, Key, key_text
from daggerspec.columns import BAND
from daggersql.rules.compiled import CompiledRule, SeasonalBand
from daggersql.rules.judged import JudgedRow
from daggersql.rules.sketch import SEASONS, SeasonalSketch
from runtime.rules.columns import read_answer
from runtime.rules.selection import SelectedRule
from runtime.state.store import Place

FILE: Final = "alert-rules-usual-"
"""Begin of the names of files beside the checkpoints; behind it: series, and hour of the season or OPEN."""
OPEN: Final = "open"
MOST_NUMBERS: Final = 5_000_000
"""Numbers that are remembered of all sketches; beyond them no further hours and keys are."""
_MICROSECOND: Final = timedelta(microseconds=1)
_OUTSIDE, _INSIDE, _UNKNOWN = 0, 1, 2


class Bands:
    """All sketches of a launch. A file that cannot be read or written costs what is in it, and never ends a
    driver.
    """

    def __init__(self, root: Callable[[], Place], created: int, slide: timedelta) -> None:
        """root: directory of the dagger's checkpoints. created: of the dagger; files of another one are
        removed.
        """
        self._root, self._created, self._slide = root, created, slide // _MICROSECOND
        self._rules: dict[str, tuple[int, CompiledRule, SeasonalBand]] = {}
        """Rules that have a band, and their places among all, by name."""
        self._sketches: dict[str, SeasonalSketch] = {}
        self._changed: dict[tuple[str, int], None] = {}
        """Series and hours of the season that are to be stored, in the order of their change."""
        self._open_changed: set[str] = set()
        self._is_full = False

    def choose(self, rules: Sequence[CompiledRule]) -> None:
        """Go on with the sketches that rules need; others are forgotten, with their files."""
        self._rules = {
            rule.text.name: (place, rule, rule.band)
            for place, rule in enumerate(rules)
            if rule.band is not None
        }
        bands = {band.series: band for _, _, band in self._rules.values()}
        if bands.keys() == self._sketches.keys():
            return
        sketches = {
            name: self._sketches.get(name) or SeasonalSketch(SEASONS[band.season], self._slide)
            for name, band in bands.items()
        }
        try:
            for file in [file for file in self._root().iterdir() if file.name.startswith(FILE)]:
                name = file.name.removeprefix(FILE).partition("-")[0]
                if name not in bands:
                    file.remove()
                elif name not in self._sketches:
                    self._load(file, sketches[name])
        except OSError as problem:
            logger().warning("rules.usual_lost", why=str(problem))
        for sketch in sketches.values():
            sketch.forget_merged()
        self._sketches = sketches

    def _load(self, file: Place, sketch: SeasonalSketch) -> None:
        """Read a file into a sketch. Raises: OSError."""
        slot = file.name.rpartition("-")[2].removesuffix(".json")
        try:
            stored = json.loads(file.read_text())
            if stored["created"] != self._created:
                file.remove()
            elif slot == OPEN:
                sketch.load_open(
                    stored["begun"], ((int(window), _index_by_key(rows)) for window, rows in stored["rows"])
                )
            else:
                sketch.load_slot(int(slot), _index_by_key(stored["rows"]).items())
        except (ValueError, KeyError, TypeError) as problem:
            logger().warning("rules.usual_lost", file=file.name, why=repr(problem))

    def select(self, rule: CompiledRule) -> SelectedRule | None:
        """Return what workers select for a rule; None where it has no band."""
        place, _, band = self._rules.get(rule.text.name, (0, None, None))
        if band is None:
            return None
        read = dict.fromkeys((*rule.read, *band.key, BAND + band.series, f"{BAND}{place}"))
        return SelectedRule(
            rule.text.name, rule.key, tuple(read), frozenset(), takes_all=True, is_combined=False
        )

    # ---- Answers -------------------------------------------------------------------------------------------

    def answer(self, rows: Iterable[JudgedRow]) -> list[JudgedRow]:
        """Answer for the rows of a batch, and take their numbers; return all rows as they are judged."""
        answered: list[JudgedRow] = []
        by_window = defaultdict[int, list[JudgedRow]](list)
        for row in rows:
            if row.rule in self._rules:
                by_window[row.window].append(row)
            else:
                answered.append(row)
        for window in sorted(by_window):
            self._merge(window)
            numbers = defaultdict[str, dict[Key, float]](dict)
            answered += (self._answer(row, numbers) for row in by_window[window])
            for series, by_key in numbers.items():
                self._sketches[series].add(window, by_key)
                self._open_changed.add(series)
        return answered

    def _merge(self, window: int) -> None:
        for name, sketch in self._sketches.items():
            room = MOST_NUMBERS - sum(one.size for one in self._sketches.values())
            for hour in sketch.merge(window, room, MOST_KEYS):
                self._changed[name, sketch.slot_of(hour)] = None
                self._open_changed.add(name)
        is_full = any(sketch.passed_over for sketch in self._sketches.values())
        if is_full and not self._is_full:
            logger().warning("rules.usual_truncated", most=MOST_NUMBERS, most_keys=MOST_KEYS)
        self._is_full = is_full

    def _answer(self, row: JudgedRow, numbers: Mapping[str, dict[Key, float]]) -> JudgedRow:
        place, rule, band = self._rules[row.rule]
        key = tuple(key_text(row.values[name]) for name in band.key)
        number = row.values[BAND + band.series]
        usual = self._sketches[band.series].find(key, row.window)
        answer, values = _UNKNOWN, {name: row.values[name] for name in rule.read}
        if number is not None:
            of_series = numbers[band.series]
            of_series[key] = max(number, of_series.get(key, number))
            if usual is not None:
                answer = _OUTSIDE if usual.is_outside(number, band.band) else _INSIDE
        if usual is not None:
            values[f"median of {band.number_text}"] = usual.median
            values[f"spread of {band.number_text}"] = usual.spread
        is_true, is_over = read_answer(row.values[f"{BAND}{place}"], answer)
        return row._replace(is_true=is_true, is_over=is_over, values=values)

    def store(self) -> None:
        """Store what has changed: the hours that ended first, in their order, then those that go on."""
        try:
            for series, slot in self._changed:
                rows = [[list(key), numbers] for key, numbers in self._sketches[series].list_slot(slot)]
                self._write(f"{series}-{slot}", {"rows": rows})
            for series in self._open_changed & self._sketches.keys():
                sketch = self._sketches[series]
                windows = [
                    [window, [[list(key), number] for key, number in rows]]
                    for window, rows in sketch.list_open().items()
                ]
                self._write(f"{series}-{OPEN}", {"begun": sketch.begun, "rows": windows})
        except OSError as problem:
            logger().warning("rules.usual_not_kept", why=str(problem))
        self._changed.clear()
        self._open_changed.clear()

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps({"created": self._created, **content})
        (self._root() / f"{FILE}{name}.json").write_text(text)

    def learns_until(self, band: SeasonalBand) -> int | None:
        """Return from when on numbers can be outside of a band, in us; None before its first window."""
        return self._sketches[band.series].learns_until()


def _index_by_key(rows: Iterable[tuple[list[str | None], Any]]) -> dict[Key, Any]:
    return {tuple(key): value for key, value in rows}
