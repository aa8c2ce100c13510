"""Queries to begin with: questions that people ask of many streams, where a stream can answer them. Pure."""

# ruff: noqa: S608 - queries in the dialect, which are checked as any that a person writes

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from daggersql.described import ColumnDescription
from daggersql.likely_columns import LikelyColumns, likely_columns, name_output, words

_MINUTE: Final = "rowtime, INTERVAL '60' SECOND"
_SILENCE: Final = "rowtime, INTERVAL '10' MINUTE"
_CELL_LEVEL: Final = 13
"""Cells of S2 of about a square kilometre."""
_TOP: Final = 10


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """A query of a common question, which runs as it is."""

    title: str
    """The question in a few words."""
    sql: str


def write_first_query(
    table: str, columns: Sequence[ColumnDescription], sensitive: Collection[str] = ()
) -> str:
    """Return a query that counts records in windows of a minute, by the likeliest enum or short text.

    table: its name in FROM. columns: those of the stream, as `described.columns` gives them. sensitive:
    dotted paths of fields that it does not show. A stream without a column to count by is counted as a whole.
    """
    return _count(likely_columns(table, columns, sensitive)).sql


def write_templates(
    table: str, columns: Sequence[ColumnDescription], sensitive: Collection[str] = ()
) -> list[QueryTemplate]:
    """Return a query for each question that the columns can answer; the first is `write_first_query`'s."""
    likely = likely_columns(table, columns, sensitive)
    return [
        _count(likely),
        *_completed_by_cell(likely),
        *_api_health(likely),
        *_conversion(likely),
        *_distinct_people(likely),
        *_top(likely),
        *_sessions(likely),
    ]


def _count(likely: LikelyColumns) -> QueryTemplate:
    column = likely.category()
    if column is None:
        return QueryTemplate("Records a minute", _window(likely, [], ["count(1) AS records"]))
    sql = _window(likely, [column], ["count(1) AS records"])
    return QueryTemplate(f"Records a minute by {words(column.path)[-1]}", sql)


def _completed_by_cell(likely: LikelyColumns) -> Iterator[QueryTemplate]:
    """Count what was completed by S2 cell."""
    place, outcome = likely.coordinates(), likely.outcome()
    if place is None:
        return
    cell = f"S2Id({likely.path(place[0])}, {likely.path(place[1])}, {_CELL_LEVEL})"
    where = "" if outcome is None else f"WHERE {likely.path(outcome[0])} = '{outcome[1]}'\n"
    title = "Records by S2 cell" if outcome is None else f"{outcome[1].capitalize()} by S2 cell"
    yield QueryTemplate(
        title,
        f"SELECT {cell} AS tag_s2id,\n"
        "       count(1) AS records,\n"
        f"       TUMBLE_END({_MINUTE}) AS window_timestamp\n"
        f"FROM `{likely.table}`\n{where}"
        f"GROUP BY TUMBLE({_MINUTE}), {cell}\n",
    )


def _api_health(likely: LikelyColumns) -> Iterator[QueryTemplate]:
    """Count the calls of an API by path and status."""
    endpoint, status = likely.endpoint(), likely.status_code()
    if endpoint is not None and status is not None and endpoint != status:
        yield QueryTemplate(
            "API health by path and status", _window(likely, [endpoint, status], ["count(1) AS records"])
        )


def _conversion(likely: LikelyColumns) -> Iterator[QueryTemplate]:
    """Count how many of all ended well."""
    if (outcome := likely.outcome()) is not None:
        well = f"SUM(CASE WHEN {likely.path(outcome[0])} = '{outcome[1]}' THEN 1 ELSE 0 END)"
        outputs = [
            f"{well} AS completed",
            "count(1) AS records",
            f"CAST({well} * 100.0 / count(1) AS DOUBLE) AS percent",
        ]
        yield QueryTemplate("Conversion", _window(likely, [], outputs))


def _distinct_people(likely: LikelyColumns) -> Iterator[QueryTemplate]:
    if (person := likely.person()) is not None:
        outputs = [f"DistinctCount({likely.path(person)}) AS distinct_count", "count(1) AS records"]
        yield QueryTemplate(f"Distinct {words(person.path)[-1]}", _window(likely, [], outputs))


def _top(likely: LikelyColumns) -> Iterator[QueryTemplate]:
    """Rank the people with the most records of each window, or else the categories."""
    column = likely.person() or likely.category()
    if column is None:
        return
    path, name = likely.path(column), f"tag_{name_output(column)}"
    place = "place" if name != "tag_place" else "position"
    counted = (
        f"SELECT {path} AS {name}, count(1) AS records, window_start, window_end\n"
        f"            FROM TABLE(TUMBLE(TABLE `{likely.table}`, DESCRIPTOR(rowtime), INTERVAL '60' SECOND))\n"
        f"            GROUP BY window_start, window_end, {path}"
    )
    number = f"ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY records DESC) AS {place}"
    yield QueryTemplate(
        f"Top {_TOP} of {words(column.path)[-1]}",
        f"SELECT {place} AS tag_{place}, {name}, records, window_end AS window_timestamp\n"
        f"FROM (SELECT *, {number}\n"
        f"      FROM ({counted})) AS numbered\n"
        f"WHERE {place} <= {_TOP}\n",
    )


def _sessions(likely: LikelyColumns) -> Iterator[QueryTemplate]:
    """Count what one person does until ten minutes of silence."""
    if (person := likely.person()) is not None:
        path = likely.path(person)
        yield QueryTemplate(
            f"Sessions of a {words(person.path)[-1]}",
            f"SELECT {path} AS tag_{name_output(person)},\n"
            "       count(1) AS records,\n"
            f"       SESSION_END({_SILENCE}) AS window_timestamp\n"
            f"FROM `{likely.table}`\n"
            f"GROUP BY SESSION({_SILENCE}), {path}\n",
        )


def _window(likely: LikelyColumns, by: Sequence[ColumnDescription], outputs: Sequence[str]) -> str:
    """Write a query with outputs of each minute, by columns that become tags."""
    paths, tags = [likely.path(column) for column in by], _name_apart([name_output(column) for column in by])
    selected = [
        *(f"{path} AS tag_{tag}" for path, tag in zip(paths, tags, strict=True)),
        *outputs,
        f"TUMBLE_END({_MINUTE}) AS window_timestamp",
    ]
    groups = ", ".join([f"TUMBLE({_MINUTE})", *paths])
    listed = ",\n       ".join(selected)
    return f"SELECT {listed}\nFROM `{likely.table}`\nGROUP BY {groups}\n"


def _name_apart(names: Sequence[str]) -> list[str]:
    """Return names, with a number behind one that is there before."""
    return [name if name not in names[:index] else f"{name}_{index + 1}" for index, name in enumerate(names)]
