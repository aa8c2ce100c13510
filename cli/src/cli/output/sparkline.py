"""Series of rows over time, drawn as sparklines."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from rich.table import Table
from rich.text import Text

from daggerclient.times import iso
from daggerspec.row import Row

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40


@dataclass(frozen=True)
class Series:
    """One field of the rows that share their tags, oldest value first; `last` is the newest time."""

    tags: str
    field: str
    values: tuple[float, ...]
    last: str

    @staticmethod
    def collect(rows: Sequence[Row]) -> list["Series"]:
        """Collect the series of rows that are sorted newest first; the newest series, then the largest,
        first.
        """
        values: dict[tuple[str, str], list[float]] = defaultdict(list)
        last: dict[tuple[str, str], str] = {}
        for row in reversed(rows):
            tags = " ".join(f"{key}={value}" for key, value in row.tags.items())
            for name, value in row.fields.items():
                if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                    values[tags, name].append(float(value))
                    last[tags, name] = iso(row.time) if row.time else ""
        series = [Series(*key, tuple(points), last[key]) for key, points in values.items()]
        return sorted(series, key=lambda line: (line.last, line.values[-1]), reverse=True)


def sparkline(values: Iterable[float | None], width: int = WIDTH) -> str:
    """Draw the last `width` values as blocks, from zero (or the least where that is
    negative) to the largest; None is a gap.
    """
    last_values = list(values)[-width:]
    numbers = [0.0, *(value for value in last_values if value is not None)]
    low, high = min(numbers), max(numbers)
    span = (high - low) or 1.0
    steps = len(BLOCKS) - 1
    return "".join(
        " " if value is None else BLOCKS[round((value - low) / span * steps)] for value in last_values
    )


def table(title: str, series: Sequence[Series], height: int) -> Table:
    """Build a table of the first series that fit into `height` lines."""
    drawn = Table(
        title=title,
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
        min_width=len(title),  # a title is wrapped at its table's width
    )
    for column in ("SERIES", "FIELD", "LAST", "AT", ""):
        drawn.add_column(column, overflow="fold")
    for line in series[: max(height, 1)]:
        values = sparkline(line.values)
        cells = (line.tags or "-", line.field, f"{line.values[-1]:g}", line.last, values)
        drawn.add_row(*(Text(cell) for cell in cells))
    if not series:
        drawn.caption, drawn.caption_justify = "no rows yet", "left"
    hidden = len(series) - max(height, 1)
    if hidden > 0:
        drawn.caption = f"and {hidden} more series"
    return drawn
