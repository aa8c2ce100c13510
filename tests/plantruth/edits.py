"""Daggers as they are edited: their queries, what each counts, and edits of every class. Pure."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

Event: TypeAlias = tuple[int, int]
"""When it was, in seconds after the epoch, and its city."""
Key: TypeAlias = tuple[int, int]
"""The end of a window, in seconds after the epoch, and a city."""
CITIES: Final = (1, 2, 3)
SIZES: Final = (30, 60, 90)
FUNCTIONS: Final = ("COUNT(1)", "SUM(city_id)", "MAX(city_id)")
CLASSES: Final = ("nothing", "refused", "kept", "recomputed", "lost", "behind", "recomputed", "kept")


@dataclass(frozen=True, slots=True)
class Dagger:
    """A dagger over one stream of bookings."""

    size: int = 60
    slide: int = 0
    """Of a HOP; 0: TUMBLE."""
    function: str = FUNCTIONS[0]
    factor: int = 1
    label: str = "n"
    without: int = 0
    """A city that is filtered out."""
    forwards: bool = False
    wrong: bool = False
    """Whether it names a column that there is not."""
    trigger_s: int = 1
    memory_mib: int = 512
    team: str = "it"
    logs: bool = False
    """Whether it has a second sink."""

    @property
    def sql(self) -> str:
        """Its query."""
        where = f" WHERE city_id <> {self.without}" if self.without else ""
        if self.forwards:
            return (
                f"SELECT city_id AS tag_city, {self.factor} AS {self.label}, rowtime FROM data_stream{where}"
            )
        window = f"TUMBLE(rowtime, INTERVAL '{self.size}' SECOND)"
        if self.slide:
            window = f"HOP(rowtime, INTERVAL '{self.slide}' SECOND, INTERVAL '{self.size}' SECOND)"
        end = window.replace("(", "_END(", 1)
        column = "nowhere" if self.wrong else "city_id"
        value = f"{self.function} * {self.factor} AS {self.label}"
        return (
            f"SELECT city_id AS tag_city, {value}, {end} AS window_timestamp"
            f" FROM data_stream{where} GROUP BY {window}, {column}"
        )

    @property
    def columns(self) -> set[str]:
        """Those that a sink of rows sees."""
        return {"tag_city", self.label, "rowtime" if self.forwards else "window_timestamp"}

    def file(self, name: str, stream: str, rows: str) -> Mapping[str, Any]:
        """Its file, but for `sql`'s quoting: what YAML makes of it."""
        read = {"table": "data_stream", "stream": stream, "watermark_delay": "5s", "idle_timeout": "6h",
                "start": "earliest"}  # fmt: skip
        sinks: list[dict[str, Any]] = [{"kafka": {"topic": rows, "format": "json"}}]
        if self.logs:
            sinks.append({"log": {"limit": 5}})
        memory = f"{self.memory_mib}MiB"
        return {"name": name, "team": self.team, "cluster": "local", "streams": [read], "sql": self.sql,
                "sinks": sinks, "trigger": f"{self.trigger_s}s", "driver_memory": memory}  # fmt: skip

    def windows(self, events: Iterable[Event]) -> dict[Key, int]:
        """The row of each window and city: the plain recount."""
        values: dict[Key, list[int]] = defaultdict(list)
        step = self.slide or self.size
        for second, city in events:
            if city == self.without:
                continue
            first = (second // step + 1) * step
            for end in range(first, second + self.size + 1, step):
                values[end, city].append(city)
        count = {FUNCTIONS[0]: len, FUNCTIONS[1]: sum, FUNCTIONS[2]: max}[self.function]
        return {key: count(each) * self.factor for key, each in values.items()}  # type: ignore[operator]


def edited(dagger: Dagger, kind: str, draw: random.Random) -> Dagger:
    """The dagger after an edit of a class. One that forwards has no windows to lose: it gets some."""
    match kind:
        case "nothing":
            return dagger
        case "refused":
            return replace(dagger, forwards=False, wrong=True)
        case "kept":
            return draw.choice(list(_kept(dagger)))
        case "behind" if not dagger.forwards:
            return replace(dagger, forwards=True)
        case _:
            windowed = replace(dagger, forwards=False)
            return windowed if dagger.forwards else draw.choice(list(_recomputed(windowed)))


def _kept(dagger: Dagger) -> Iterator[Dagger]:
    yield replace(dagger, trigger_s=3 - dagger.trigger_s)
    yield replace(dagger, memory_mib=1088 - dagger.memory_mib)
    yield replace(dagger, logs=not dagger.logs)
    yield replace(dagger, team="others" if dagger.team == "it" else "it")
    yield replace(dagger, label="m" if dagger.label == "n" else "n")
    yield replace(dagger, factor=dagger.factor % 3 + 1)


def _recomputed(dagger: Dagger) -> Iterator[Dagger]:
    yield from (
        replace(dagger, size=size, slide=0) for size in SIZES if (size, 0) != (dagger.size, dagger.slide)
    )
    if not dagger.slide:
        yield replace(dagger, size=60, slide=20)
    yield from (replace(dagger, function=function) for function in FUNCTIONS if function != dagger.function)
    yield from (replace(dagger, without=each) for each in (0, *CITIES) if each != dagger.without)


def classes(count: int, draw: random.Random) -> list[str]:
    """So many classes of edits: all of them in turn, in an order of its own each time."""
    told: list[str] = []
    while len(told) < count:
        told += draw.sample(CLASSES, len(CLASSES))
    return told[:count]
