"""Gates of a window: the times at which its row is written, the last of them when no late record can come.

A group is kept once for each gate, and Spark closes it there: so a row is written again within the state that
Spark has of the query, and a batch that is repeated repeats it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from daggersql.findings import Span
from daggersql.ir.relations import Select, Stream, Union

_MILLISECOND: Final = timedelta(milliseconds=1)
# Most late records come soon: the first gate for them is after this part of the time that they have.
_SOON: Final = 4


def gates(allowed_lateness: timedelta, slide: timedelta) -> tuple[timedelta, ...]:
    """Choose the gates of a window, in whole milliseconds: its end, soon after, and after all allowed.

    The one in the middle is where a later window ends, if one does before the last: it needs no batch.
    """
    last = allowed_lateness // _MILLISECOND * _MILLISECOND
    soon = last // _SOON // _MILLISECOND * _MILLISECOND
    aligned = -(-soon // slide) * slide
    return tuple(dict.fromkeys((timedelta(), aligned if aligned < last else soon, last)))


def find_windowed_stream(query: Select | Union) -> tuple[Select, Stream] | None:
    """Return a query that groups the records of one stream by one window of fixed size, and its stream; None
    of any other one.
    """
    if isinstance(query, Union) or query.window is None or query.window.window.kind == "SESSION":
        return None
    stream = query.relation
    if not isinstance(stream, Stream) or query.window.time.read != (stream.table.name, "rowtime"):
        return None
    return query, stream


def window_span(query: Select | Union) -> Span:
    """Return the place of the window of a query in its text, or of its first column."""
    if isinstance(query, Select) and query.window is not None:
        return query.window.span
    return query.outputs[0].value.span


def with_gates(select: Select, allowed_lateness: timedelta) -> Select:
    """Return a query of `find_windowed_stream` with the gates of its window."""
    assert select.window is not None
    window = select.window.window
    gated = replace(window, gates=gates(allowed_lateness, window.slide))
    return replace(select, window=replace(select.window, window=gated))
