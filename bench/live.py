"""The API log's peak, live: 41,667 records/s through the seed query at a 2 s trigger.

    .venv/bin/python bench/live.py [--seconds S] [--rate R]

Records are written as they happen, event time is now. After a minute to get warm: cores of the dagger (CPU
time of every process of its driver over time on the wall; the broker's and the feeder's are not counted), by
thread, too, duration of its batches, and how many records it is behind, as its heartbeats say every 5 s. Lag
does not grow when its median over the last third is not above that over the first by more than a batch.
"""

from __future__ import annotations

import argparse
import statistics

import dagger
import workload
from machine import Meter, header
from stack import stack
from threads import Threads, shown

NAME = "live"
TRIGGER_S = 2
WARM_UP_S = 60


def main() -> None:
    """Print one line."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--seconds", type=int, default=90, help="time that is counted")
    arguments.add_argument("--rate", type=int, default=workload.RATE, help="records a second")
    given = arguments.parse_args()
    print(header("pyspark", "confluent-kafka", "ptars"), flush=True)
    with stack() as on:
        dagger.prepare(on)
        dagger.apply(on, NAME, trigger=f"{TRIGGER_S}s")
        session = on.driver_session(NAME)
        with workload.feeding(on.kafka, given.rate):
            for _ in dagger.heartbeats(on.kafka, NAME, WARM_UP_S):
                pass
            with Meter(session) as meter, Threads(session) as threads:
                before, by_thread = meter.read(), threads.read()
                beats = list(dagger.heartbeats(on.kafka, NAME, given.seconds))
                cost, used = meter.read() - before, threads.read() - by_thread
    lags = [sum(beat.lag.values()) for beat in beats]
    took = sorted({beat.batch_id: beat.batch_duration_ms for beat in beats}.values())
    third = len(lags) // 3
    first, last = statistics.median(lags[:third]), statistics.median(lags[-third:])
    read = (beats[-1].rows_in - beats[0].rows_in) / (
        beats[-1].last_progress.ToMicroseconds() - beats[0].last_progress.ToMicroseconds()
    )
    grows = "grows" if last - first > given.rate * TRIGGER_S else "does not grow"
    print(
        f"live, {given.rate} records/s, {TRIGGER_S} s trigger, {cost.wall:.0f} s:"
        f" {cost.cpu / cost.wall:.2f} cores, "
        f"batch p50 {statistics.median(took):.0f} ms, longest {took[-1]} ms, "
        f"read {read * 1e6:.0f} records/s, late {beats[-1].late_rows}, "
        f"lag {first:.0f} -> {last:.0f} records: {grows}"
    )
    batches = beats[-1].batch_id - beats[0].batch_id
    print(f"thousandths of a core, and CPU-ms for each of {batches} batches:")
    shown(used, 1e3 / cost.wall, 1e3 / batches)


if __name__ == "__main__":
    main()
