"""Rows as events of users: whose, what, when, and the JSON of their properties."""

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
    """The rows of a batch; what each list has is of the row of its place."""

    names: Sequence[str | None]
    """Of the events; None for a row that lacks a value of it."""
    identities: Sequence[str | None]
    """Whose they are."""
    times: Sequence[int | None]
    """Microseconds after the epoch; None for rows without a time."""
    properties: Sequence[str]
    """What is not NULL, as the inside of a JSON object; empty where all of it is."""
    too_long: Mapping[int, str]
    """Rows with a value of more bytes than it may have, and the first property of which that is so."""
    longest: int = 0
    """Bytes that a value may have; 0: any."""
    unnamed: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Why rows have no name."""

    def refusals(self) -> list[Refusal]:
        """The rows that are no events of anybody, or have a value that is too long."""
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
    """The events that rows are; `without` are names that no property has.

    Raises: JobError (USER) for a column without a text.
    """
    columns = {column.name: array for column, array in layout.visible(rows)}
    pieces: list[list[str]] = []
    too_long: dict[int, str] = {}
    for property_ in events.properties(event, identity, layout):
        texts, name = json_text.texts(columns[property_.name]), events.named(property_.name)
        if longest:
            for row in _longer(texts, longest + 2):  # it may have quotes
                too_long.setdefault(row, name)
        if name not in without:
            start = f"{json_text.quoted(name)}:"
            pieces.append(["" if text == json_text.NULL else start + text for text in texts])
    said = zip(*pieces, strict=True) if pieces else ((),) * rows.num_rows
    time = layout.time or (WINDOW_END if layout.windowed else None)
    count = rows.num_rows
    names = template.texts(event, columns, count) if event else ["profile"] * count
    missing = (row for row, name in enumerate(names) if name is None)
    return UserEvents(
        names,
        template.texts(f"${{{identity}}}", columns, count),
        microseconds(rows.column(time)) if time else [None] * count,
        [",".join(filter(None, row)) for row in said],
        too_long,
        longest,
        {row: template.why_missing([event], columns, row) for row in missing},
    )


def _longer(texts: Sequence[str], most: int) -> Iterator[int]:
    """The places of texts with more bytes. No character has more than four."""
    for place, text in enumerate(texts):
        if len(text) > most // 4 and len(text.encode(errors="replace")) > most:
            yield place
