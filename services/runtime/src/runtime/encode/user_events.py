"""Convert rows to events of users: identity, name, time, and properties as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from daggerspec import events
from daggerspec.columns import WINDOW_END
from runtime.encode import json_text, template
from runtime.encode.rows import Layout, Refusal, microseconds


@dataclass(frozen=True, slots=True)
class UserEvents:
    """Events of a batch; element i of each list is of row i."""

    names: Sequence[str | None]
    """Names of the events; None for a row that lacks a value of its template."""
    identities: Sequence[str | None]
    """Identities of the users."""
    times: Sequence[int | None]
    """Microseconds since 1970; None for rows without a time."""
    properties: Sequence[str]
    """Properties that are not NULL, as the inside of a JSON object; empty if all are NULL."""
    too_long: Mapping[int, str]
    """First property with too many bytes, by row."""
    longest: int = 0
    """Limit of a value in bytes; 0: none."""
    unnamed: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Reason and sentence for rows without a name."""

    def refusals(self) -> list[Refusal]:
        """Refuse rows without an identity or a name, or with a value that is too long."""
        why: dict[int, tuple[str, str]] = {
            row: ("TOO_LARGE", f"The value of {name} has more than {self.longest} bytes.")
            for row, name in self.too_long.items()
        }
        empty = "TEMPLATE_NULL", "The event's name is empty."
        why.update({row: self.unnamed.get(row, empty) for row, name in enumerate(self.names) if not name})
        nobody = (row for row, identity in enumerate(self.identities) if not identity)
        why.update(dict.fromkeys(nobody, ("NO_IDENTITY", "The row says nobody whose event it is.")))
        return [Refusal(row, *why[row]) for row in sorted(why)]


def of(
    layout: Layout,
    rows: pa.RecordBatch,
    event: str,
    identity: str,
    *,
    longest: int = 0,
    without: Collection[str] = (),
) -> UserEvents:
    """Convert the rows of a batch. without: names of properties that are left out.

    Raises: JobError (USER) for a column without a text.
    """
    columns = {column.name: array for column, array in layout.visible(rows)}
    pieces: list[list[str]] = []
    too_long: dict[int, str] = {}
    for property_ in events.properties(event, identity, layout):
        texts, name = json_text.texts(columns[property_.name]), events.property_name(property_.name)
        if longest:
            for row in _longer(texts, longest + 2):  # it may have quotes
                too_long.setdefault(row, name)
        if name not in without:
            start = f"{json_text.quote(name)}:"
            pieces.append(["" if text == json_text.NULL else start + text for text in texts])
    property_rows = zip(*pieces, strict=True) if pieces else ((),) * rows.num_rows
    time = layout.time or (WINDOW_END if layout.windowed else None)
    count = rows.num_rows
    names = template.texts(event, columns, count) if event else ["profile"] * count
    missing = (row for row, name in enumerate(names) if name is None)
    return UserEvents(
        names,
        template.texts(f"${{{identity}}}", columns, count),
        microseconds(rows.column(time)) if time else [None] * count,
        [",".join(filter(None, row)) for row in property_rows],
        too_long,
        longest,
        {row: template.why_missing([event], columns, row) for row in missing},
    )


def _longer(texts: Sequence[str], most: int) -> Iterator[int]:
    """Yield the indexes of texts with more than `most` bytes. A character has at most four."""
    for place, text in enumerate(texts):
        if len(text) > most // 4 and len(text.encode(errors="replace")) > most:
            yield place
