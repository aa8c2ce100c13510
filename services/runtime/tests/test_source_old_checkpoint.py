"""A checkpoint that Spark's own maximum moved goes on under the least of the partitions, exactly.

The checkpoints were made at 39202320, by the query and the records of this test; the driver died in a batch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection
from services.runtime.tests.archives import unpack
from services.runtime.tests.streams import BEGIN, COUNT, Feed, Job, booking, windows

from runtime.source.watermark import Windows

pytestmark = pytest.mark.integration

FIXTURES = Path(__file__).parent / "checkpoints"
SESSIONS = (
    "SELECT session_window(rowtime, '4 seconds').start AS start, count(1) AS n FROM data_stream "
    "GROUP BY session_window(rowtime, '4 seconds'), city"
)
FIRST = [0, 1, 2, 11, 12, 24, 33], [0, 3, 5, 14, 15, 21, 34, 36]
"""The records of either partition; the last of each were planned by the batch that failed."""


def sessions(seconds: list[int]) -> Counter[int]:
    """How many of these event times are in each session, by the second of its first."""
    found: Counter[int] = Counter()
    begin, last = 0, -4
    for second in sorted(seconds):
        begin = second if second - last >= 4 else begin
        found[begin], last = found[begin] + 1, second
    return found


@pytest.mark.parametrize("kind", ["tumble", pytest.param("session", marks=pytest.mark.long)])
def test_a_checkpoint_made_before_goes_on(
    feed: Feed, run: Callable[..., Job], tmp_path: Path, kind: str
) -> None:
    feed.create(partitions=2)
    for number, seconds in enumerate((FIRST[1], FIRST[0])):
        feed.send(map(booking, seconds), number)
    described = feed.admin.describe_topics(TopicCollection([feed.topic]))[feed.topic].result()
    unpack(FIXTURES / f"{kind}.tar.xz", tmp_path / "checkpoint")
    told = json.loads((tmp_path / "checkpoint" / "told.json").read_text())
    kept = [
        file
        for folder in ("offsets", "source-start")
        for file in (tmp_path / "checkpoint" / folder).iterdir()
    ]
    for file in kept:
        if file.name.startswith("."):  # its checksum
            file.unlink()
            continue
        text = file.read_text()
        file.write_text(text.replace(told["id"], str(described.topic_id)).replace(told["topic"], feed.topic))
    size = Windows(10_000, 10_000) if kind == "tumble" else Windows(4_000, 0)
    sql = COUNT.format(where="") if kind == "tumble" else SESSIONS
    more = [[41, 47, 52, 58, 64, 80], [38, 44, 45, 53, 55, 61, 81]]

    job = run(feed.resolved(), windows=size, late_for=(size,), generation=2).start(sql)
    feed.send(map(booking, more[0]), 0)
    job.until(lambda job: job.total(lambda c: c.rows) == 8)
    before = set(job.rows)
    feed.send(map(booking, more[1]), 1)
    everything = [*FIRST[0], *FIRST[1], *more[0], *more[1]]
    expected = windows(everything)
    if kind == "session":
        expected = Counter({BEGIN + timedelta(seconds=at): n for at, n in sessions(everything).items()})
    expected = Counter({at: n for at, n in expected.items() if at < BEGIN + timedelta(seconds=70)})
    written = Counter({BEGIN + timedelta(seconds=int(at)): n for at, n in told["rows"].items()})
    job.until(lambda job: len(job.rows) == len(expected) - len(written))

    assert (before, job.rows + written, set(job.rows) & set(written)) == (set(), expected, set())
    assert job.total(lambda c: c.late) == 0
