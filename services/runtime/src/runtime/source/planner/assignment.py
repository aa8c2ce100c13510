"""Assign topics to readers, so that the topics of a stream may come and go.

Spark knows a source by its place in the query, and hands it the offsets that its log has for that place.
Where topics come or go, the places are taken by other readers. So each change of topics makes a new
assignment: every reader has a name in it, carries that name in its offsets, and, when it is handed the
offsets of another, begins where the assignment says. A reader of a new assignment goes on where its topics
stood under the one before.

Nothing here calls Kafka or Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.source.offsets import LostRecords, Offsets, Partition, Positions
from runtime.source.planner import lost as lost_records

MAX_READERS = 8
"""Reader processes of one dagger: each is a Python of its own beside the driver."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The readers of a query.

    `number` counts the assignments of a checkpoint. `shares` are where the readers of each table begin, with
    all that each reads; `ended` are the topics of each table that are not read any more, and where reading
    them ended.
    """

    number: int
    shares: Mapping[str, tuple[Offsets, ...]]
    ended: Mapping[str, Offsets]

    def topics(self) -> dict[str, tuple[str, ...]]:
        """Return the topics of each table, sorted."""
        return {table: merge(shares).topics for table, shares in self.shares.items()}

    def as_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return {
            "number": self.number,
            "shares": {table: [share.as_json() for share in shares] for table, shares in self.shares.items()},
            "ended": {table: share.as_json() for table, share in self.ended.items()},
        }

    @staticmethod
    def from_json(form: Mapping[str, Any]) -> Assignment:
        """Read an assignment from the JSON object that `as_json` returns."""
        return Assignment(
            form["number"],
            {table: tuple(map(Offsets.from_json, shares)) for table, shares in form["shares"].items()},
            {table: Offsets.from_json(share) for table, share in form["ended"].items()},
        )


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """The newest batch in Spark's log: the end of every source, and whether it is committed.

    `begins` are the ends of the batch before; empty where there was none.
    """

    ends: tuple[Offsets, ...] = ()
    committed: bool = True
    begins: tuple[Offsets, ...] = ()

    def find_lost(self, share: Offsets) -> tuple[LostRecords, ...]:
        """Merge what the reader that began at `share` had missed when this batch was planned."""
        ends = [end for end in self.ends if end.reader == share.reader]
        return lost_records.merge(share.lost, [lost for end in ends for lost in end.lost])

    def find_begins(self, share: Offsets) -> dict[Partition, int]:
        """Return where this batch began in the partitions of a reader that began at `share`, or of the
        readers before it; empty where there is no batch.
        """
        if not self.ends:
            return {}
        begins: dict[Partition, int] = {}
        for begin in self.begins:
            if _table_of(begin) == _table_of(share):
                for partition, offset in begin.only(share.ids).next.items():
                    begins[partition] = min(offset, begins.get(partition, offset))
        return {**share.next, **begins}


Join = Callable[[str, Sequence[str], Offsets], Offsets]
"""Returns where topics of a table begin that are not read now; the offsets are of those that once were."""


def next_assignment(
    before: Assignment | None, logged: LoggedBatch, wanted: Mapping[str, Sequence[str]], join: Join
) -> tuple[Assignment, Mapping[str, Positions]]:
    """Return the assignment to read by: `before` while it has the topics that are wanted of each table.

    Else a new one, or, where the readers of `before` must come to a common end first, `before` with the end
    of each reader by name: a planned batch is not committed, or a query that reads a stream twice has come
    further on one side. The next call gives the new one then.
    """
    if before is not None:
        if before.topics() == {table: tuple(sorted(set(topics))) for table, topics in wanted.items()}:
            return before, {}
        positioned, level = _position(before, logged)
        if not (logged.committed and level):
            return before, {share.reader: share.next for share in _readers(positioned)}
        before = positioned
    number = 0 if before is None else before.number + 1
    counts = reader_counts({table: len(set(topics)) for table, topics in wanted.items()})
    shares, ended = {}, {}
    for table, topics in wanted.items():
        read = merge(before.shares[table]) if before else merge(())
        past = merge((before.ended[table],)) if before else merge(())
        new = sorted(set(topics) - set(read.topics))
        start = merge((read, join(table, new, past.only(new)) if new else merge(())))
        ended[table] = merge(
            (past.only(set(past.topics) - set(new)), read.only(set(read.topics) - set(topics)))
        )
        shares[table] = tuple(
            replace(start.only(group), reader=f"{number}/{table}.{index}")
            for index, group in enumerate(_split(sorted(set(topics)), counts[table]))
        )
    return Assignment(number, shares, ended), {}


def planned_records(assignment: Assignment, logged: LoggedBatch, topics: Collection[str]) -> dict[str, int]:
    """Count how many records of these topics the readers must read at most to come to a common end."""
    done = logged.ends if logged.committed else logged.begins
    positioned, _ = _position(assignment, logged)
    counts = dict.fromkeys(sorted(topics), 0)
    for share, begun in zip(_readers(positioned), _readers(assignment), strict=True):
        starts = [end for end in done if end.reader == share.reader] or [begun]
        for partition, offset in share.next.items():
            if partition.topic in counts:
                counts[partition.topic] += offset - min(start.next.get(partition, 0) for start in starts)
    return {topic: count for topic, count in counts.items() if count}


def reader_counts(topics: Mapping[str, int], readers: int = MAX_READERS) -> dict[str, int]:
    """Share `readers` among the streams, by name and number of topics.

    One each, and the rest of `readers` one by one to the stream whose topics share the fewest.
    """
    given = dict.fromkeys(sorted(topics), 1)
    for _ in range(readers - len(given)):
        neediest = max(given, key=lambda name: topics[name] / given[name])
        if given[neediest] < topics[neediest]:
            given[neediest] += 1
    return given


def _split(topics: Sequence[str], readers: int) -> list[tuple[str, ...]]:
    """Divide the topics among readers: one each, as far as there are readers."""
    count = min(len(topics), readers)
    return [tuple(topics[index::count]) for index in range(count)]


def merge(shares: Iterable[Offsets]) -> Offsets:
    """Merge offsets under no name: rows are whole, and were written before, as far as in any of them."""
    ids: dict[str, str] = {}
    next_: dict[Partition, int] = {}
    complete_from = closed = 0
    lost: tuple[LostRecords, ...] = ()
    for share in shares:
        ids |= share.ids
        next_ |= share.next
        complete_from = max(complete_from, share.complete_from)
        closed = max(closed, share.closed)
        lost = lost_records.merge(lost, share.lost)
    return Offsets(ids, next_, complete_from=complete_from, closed=closed, lost=lost)


def _position(before: Assignment, logged: LoggedBatch) -> tuple[Assignment, bool]:
    """Move every reader to where the log has it; tell whether each has one place only.

    A query that reads a stream twice has each of its readers twice, and the two may stand apart: then the
    reader stands at the farther place.
    """
    level = True
    shares = {}
    for table, readers in before.shares.items():
        moved = []
        for share in readers:
            ends = [end for end in logged.ends if end.reader == share.reader]
            level = level and all(end.next == ends[0].next for end in ends)
            farthest: dict[Partition, int] = {} if ends else dict(share.next)
            for end in ends:
                for partition, offset in end.next.items():
                    farthest[partition] = max(offset, farthest.get(partition, 0))
            lost = lost_records.merge(share.lost, [lost for end in ends for lost in end.lost])
            moved.append(replace(share, next=farthest, lost=lost))
        shares[table] = tuple(moved)
    return replace(before, shares=shares), level


def _table_of(share: Offsets) -> str:
    """Return the table whose topics a reader reads, which stands in its name."""
    return share.reader.partition("/")[2].rpartition(".")[0]


def _readers(assignment: Assignment) -> list[Offsets]:
    return [share for shares in assignment.shares.values() for share in shares]
