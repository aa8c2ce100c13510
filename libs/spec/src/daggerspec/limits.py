"""Limits of sizes, counts, times and memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

MAX_STREAMS: Final = 11
MAX_SINKS: Final = 20
MAX_TOPICS: Final = 100
"""Of a stream."""

BATCH_RECORDS: Final = 2_000_000
"""Records of a batch of one reader, about, unless less is asked for."""

MAX_RATE: Final = 1e9
"""Rows or requests a second that a limit may say: more limits nothing."""
MAX_IN_FLIGHT: Final = 100_000
"""Requests at once that it may say."""
READ_ROWS: Final = 1_000
"""Rows that are read unless asked otherwise."""
MAX_READ_ROWS: Final = 1_000_000
WATCHED_ROWS: Final = 1_000
"""Rows that a look of a watch gives: the newest."""
SAMPLED_RECORDS: Final = 10
"""Records of a stream that are shown unless asked otherwise."""
MAX_SAMPLED_RECORDS: Final = 1_000
PREVIEW_ROWS: Final = 10_000
"""Rows that a preview gives."""
PREVIEW_RECORDS: Final = 10_000_000
"""Records of a stream that it reads."""
PREVIEW_S: Final = 60.0
"""The longest run of a preview in seconds, once its host has begun."""
PREVIEW_LAST: Final = timedelta(days=7)
"""The longest time that `last` may go back."""
QUERY_TESTS: Final = 50
"""Tests of a query that a dagger has."""
TEST_RECORDS: Final = 1_000
"""Given records of one of them, of all its tables."""
TEST_ROWS: Final = 1_000
"""Rows that one of them expects, or gives."""
TESTS_BYTES: Final = 256 * 1024
"""All of them together, as they stand in the specification."""
WATCH_S: Final = 1.0
"""Between the looks of a watch."""
ALERT_RULES: Final = 50
"""Alert rules of a dagger."""
RULE_WINDOWS: Final = 10_000
"""Windows in a row that a rule may have to be true for."""

MIN_DRIVER_MEMORY_MIB: Final = 450
"""The least memory that Spark asks for."""
MAX_DRIVER_MEMORY_MIB: Final = 1024 * 1024
MIN_HEAP_MIB: Final = 480
"""The least heap that Spark does need: 450, and the thirtieth that the serial collector keeps free."""
DEFAULT_DRIVER_MEMORY_MIB: Final = 768
DRIVER_OVERHEAD_MIB: Final = 1536
"""The memory of a driver beside its heap: metaspace, threads, state on disk, the Python half, its readers and
workers. Seen with local[2], one stream and a full heap of 768 MiB: up to 2.2 GiB in all (bench/state.py)."""

REPLAY_MIB: Final = 384
"""The memory of an attempt of a replay: a Python process with Arrow, some thousand rows at once, and what is
remembered of each record. With 100,000 of them it takes 324 MiB."""

WORKER_MEMORY_MIB: Final = 1024
"""The memory of a Python worker beyond what it begins with. The usual one takes 100 MiB; look-up tables,
which have 64 MiB as files, take the most."""

RECENT_S: Final = 300
"""The window in seconds over which late and set-aside records, and their shares, are counted as recent."""
LATE_SHARE: Final = 0.01
"""A driver tells of late rows when they are a greater share than this of the rows read recently …"""
LATE_ROWS: Final = 10
"""… unless they are fewer than this."""
SHARE_S: Final = 120
"""Nobody is woken by a share of what was counted for less than this: of a first minute it says little."""
SHARE_ENDS: Final = 0.5
"""A share that was too great is told until it is no more than this part of its limit: at the limit itself it
would come and go."""
STALE_SHARE: Final = 0.05
"""An objective of freshness is missed when a greater share of the rows came recently later than it says."""
BEHIND_S: Final = 300
"""A driver tells of a partition when event time has waited for it for so long."""
OVERDUE_S: Final = 300
"""A driver tells of input without output that lasts so much longer than windows, delays and silences may."""
