"""Helpers of test_sink_postgres_faults.py and of its neighbours."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import psycopg
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import Counts, batch, target

from runtime import sinks
from runtime.errors import TemporaryError
from runtime.sinks import BatchRef, Part

PATIENCE_S: Final = 120
MINUTE: Final = "2026-01-01T12:01:00Z"


@dataclass
class Table:
    """One table, and what a task and its driver do with batches of one partition."""

    resolved: spec_pb2.ResolvedSink
    url: str = ""

    def write(self, counts: Counts, batch_id: int = 0, generation: int = 1) -> int:
        """Write a batch in two Arrow batches, and commit it; how many rows were refused."""
        aimed = target("d", self.resolved)
        rows, half = list(counts.items()), len(counts) // 2
        own = BatchRef("c", batch_id, generation)
        writer = sinks.open_writer(replace(aimed, part=Part(own, 0)))
        refused = [
            *writer.write(batch(dict(rows[:half])), batch_id).refused,
            *writer.write(batch(dict(rows[half:])), batch_id).refused,
        ]
        end = writer.finish()
        sinks.commit(aimed, own, [end.receipt] if end.receipt else [])
        return len(refused) + len(end.refused)

    def patiently(self, counts: Counts, batch_id: int = 0, generation: int = 1) -> list[str]:
        """Write a batch as a driver does, again and again; why it had to wait."""
        told, began = list[str](), time.monotonic()
        while time.monotonic() - began < PATIENCE_S:
            try:
                assert self.write(counts, batch_id, generation) == 0
            except TemporaryError as why:
                told.append(why.error.detail)
            else:
                return told
        raise AssertionError(told)

    def sql(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self) -> Counter[tuple[str, int]]:
        """City and count of each row, and how often it is there."""
        with psycopg.connect(self.url) as connection:
            return Counter(connection.execute("SELECT tag_city, n::bigint FROM counts").fetchall())
