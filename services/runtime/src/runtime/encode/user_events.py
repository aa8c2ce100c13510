"""Rows as events of users: whose, what, when, and the JSON of their properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    properties: Sequence[Sequence[tuple[str, str]]]
    """Names and JSON texts of what is not NULL."""

    def refusals(self, longest: int | None = None) -> list[Refusal]:
        """The rows that are no events of anybody, or have a value of more bytes."""
        why: dict[int, tuple[str, str]] = {}
        for row, said in enumerate(self.properties):
            long = [
                name for name, text in said if longest and len(text.encode(errors="replace")) > longest + 2
            ]
            if long:
                why[row] = ("TOO_LARGE", f"The value of {long[0]} has more than {longest} bytes.")
        null = (row for row, name in enumerate(self.names) if not name)
        why.update(dict.fromkeys(null, ("TEMPLATE_NULL", "The event's name has a value that is NULL.")))
        nobody = (row for row, each in enumerate(self.identities) if not each)
        why.update(dict.fromkeys(nobody, ("NO_IDENTITY", "The row says nobody whose event it is.")))
        return [Refusal(row, *why[row]) for row in sorted(why)]


def of(layout: Layout, rows: pa.RecordBatch, event: str, identity: str) -> UserEvents:
    """The events that rows are. Raises: JobError (USER) for a column without a text."""
    columns = {column.name: array for column, array in layout.visible(rows)}
    pairs = [
        [(events.named(each.name), text) for text in json_text.texts(columns[each.name])]
        for each in events.properties(event, identity, layout)
    ]
    said = zip(*pairs, strict=True) if pairs else ((),) * rows.num_rows
    time = layout.time or (WINDOW_END if layout.windowed else None)
    count = rows.num_rows
    return UserEvents(
        template.texts(event, columns, count) if event else ["profile"] * count,
        template.texts(f"${{{identity}}}", columns, count),
        microseconds(rows.column(time)) if time else [None] * count,
        [[(name, text) for name, text in row if text != json_text.NULL] for row in said],
    )


def json_object(pairs: Sequence[tuple[str, str]]) -> str:
    """A JSON object of names and JSON texts."""
    return f"{{{','.join(f'{json_text.quoted(name)}:{text}' for name, text in pairs)}}}"
