"""What trouble costs a sink's writer: a server that takes few requests at once, and rows that one refuses.

    .venv/bin/python bench/sinktrouble.py [--runs K] [NAME ...]

throttled: the sink `http`, 1,500 rows, one a request, and no limit given: the writer finds one, anew in each
run. The server takes 15 requests at once, answers after 100 ms, and one more with 429. Beside it the bare
loop of `sinkloops/http.py` with 15 under way, the best there is. Bars: at most 10 % of all requests are
answered 429, and at least 75 % of the loop's rate.

poison: the sink `postgres`, upsert, 5,000 rows of new keys, of which three break a CHECK that only the server
knows. Bar: at most 1 s more than without them. It fails as well unless those three are refused, for their
constraint, and all others are there.

The median of K runs counts, each beside its own peer. It ends with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import urllib.request
from typing import Any, Final

import psycopg
import pyarrow as pa
import sinkloops
from chosen import chosen
from machine import header
from sinkloops import apart, http, throttling
from sinks import aimed, written

from daggerspec.sinks import postgres
from runtime.clients.http import client
from runtime.sinks import Target

MOST_REFUSED, LEAST_RATE, MOST_MORE_S = 0.10, 0.75, 1.0
REQUESTS: Final = 1_500
ROWS: Final = 5_000
POISON: Final = (17, 2_500, 4_321)


def throttled(runs: int) -> bool:
    """Whether the limit that the writer finds is a good one."""
    batch = sinkloops.rows(REQUESTS)
    shares, rates = [], []
    with apart("throttling") as url:
        target = aimed(sinkloops.trials()["http, 1 row a request"].sink(url), at_once=0)
        for number in range(runs):
            client.pool.clear()  # with the limit that it has found
            began = time.monotonic()
            assert not written(target, batch, number)
            ours, (taken, refused) = time.monotonic() - began, counted(url)
            began = time.monotonic()
            http.one(url, batch, throttling.SLOTS)
            best = time.monotonic() - began
            assert (taken, counted(url)) == (REQUESTS, (REQUESTS, 0))
            shares.append(refused / (taken + refused))
            rates.append(best / ours)
            print(
                f"{REQUESTS:,} requests in {ours:.1f} s, {refused} more answered 429;"
                f" with {throttling.SLOTS} at once {best:.1f} s",
                flush=True,
            )
    share, rate = statistics.median(shares), statistics.median(rates)
    print(f"throttled: {share:.1%} of all requests refused, {rate:.0%} of the best rate", flush=True)
    return share <= MOST_REFUSED and rate >= LEAST_RATE


def counted(url: str) -> tuple[int, int]:
    """How many requests were taken since the last question, and how many refused."""
    with urllib.request.urlopen(f"{url}/counts") as answer:
        taken, refused = json.loads(answer.read())
    return taken, refused


def poison(runs: int) -> bool:
    """Whether rows that are refused cost little."""
    clean = sinkloops.rows(ROWS)
    numbers = pa.array([-1 if row in POISON else row for row in range(ROWS)])
    poisoned = clean.set_column(clean.schema.get_field_index("n"), clean.schema.field("n"), numbers)
    trial, more = sinkloops.trials()["postgres, upsert"], []
    with trial.serving() as url, psycopg.connect(url, autocommit=True) as database:
        target = aimed(trial.sink(url))
        table = postgres.table(target.resolved.sink.postgres)
        database.execute(f"ALTER TABLE {table} ADD CONSTRAINT counts CHECK (n >= 0)")
        written(target, clean, 0)  # the connection
        for number in range(1, runs + 1):
            without = put(database, target, clean, number, ())
            took = put(database, target, poisoned, number, POISON)
            more.append(took - without)
            print(f"{ROWS:,} rows in {without:.2f} s, {took:.2f} s with poison", flush=True)
    median = statistics.median(more)
    print(f"poison: {len(POISON)} of {ROWS:,} rows refused, {median:.2f} s more", flush=True)
    return median <= MOST_MORE_S


def put(
    database: psycopg.Connection[Any],
    target: Target,
    batch: pa.RecordBatch,
    number: int,
    bad: tuple[int, ...],
) -> float:
    """The seconds that a batch takes, into a table without rows; these of it are refused, and no others."""
    table = postgres.table(target.resolved.sink.postgres)
    database.execute(f"TRUNCATE {table}")
    began = time.monotonic()
    refused = written(target, batch, number)
    took = time.monotonic() - began
    held = {order for (order,) in database.execute(f"SELECT order_number FROM {table}")}
    good = [order for row, order in enumerate(batch["order_number"].to_pylist()) if row not in bad]
    assert sorted(each.row for each in refused) == [*bad]
    assert all(each.reason == "CONSTRAINT" and "counts" in each.detail for each in refused), refused
    assert held == {*good}
    return took


TROUBLES: Final = {"throttled": throttled, "poison": poison}


def main() -> int:
    """Print a line for each run, and for each trouble what it comes to; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TROUBLES)}")
    parser.add_argument("--runs", type=int, default=5)
    told = parser.parse_args()
    names = chosen(parser, told.names, TROUBLES)
    print(header("aiohttp", "psycopg"), flush=True)
    met = [TROUBLES[name](told.runs) for name in names]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
