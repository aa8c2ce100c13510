"""A query over a oneof and a map of 2,000,000 prefilled records: records per CPU-second, cold and warm.

    .venv/bin/python bench/maps.py [--records N] [--runs K]

As bench/seed.py, but for the records (bench/order.proto) and the query: readers look at every member of the
oneof and at every entry of the map, and hand all of them to Spark.
"""

from __future__ import annotations

import argparse
from functools import partial

import dagger
import decoding
import workload
from machine import header
from runs import cold_and_warm
from seed import RowCounter
from stack import stack

SQL = """\
SELECT MapGet(tags, 'app') AS tag_app, count(card) AS cards, sum(cash) AS cash,
       count(voucher.code) AS vouchers, count(1) AS num_of_bookings,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), MapGet(tags, 'app')"""
NAME, _TIME_FIELD = "maps", "at"


def main() -> None:
    """Run, and print one line for each number."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3, help="warm runs")
    options = parser.parse_args()
    print(header("pyspark", "confluent-kafka", "ptars", "pyarrow"), flush=True)
    fill = partial(workload.fill, pool=decoding.bodies, time_field=_TIME_FIELD)
    with stack() as on:
        on.end("health-monitor")
        dagger.prepare(on, proto=decoding.PROTO, message=decoding.MESSAGE, time_field=_TIME_FIELD)
        fill(on.kafka, dagger.TOPIC, options.records)
        rows = RowCounter(on.kafka, dagger.ROWS_TOPIC)

        def done(run: int) -> str:
            rows.wait_for(run * options.records)
            return f"  {rows.rows} rows"

        what = {**dagger.SEED, "sql": SQL}
        cold_and_warm(on, NAME, what, options.records, options.runs, done, fill)
        on.daggers("delete", NAME, "--wait")


if __name__ == "__main__":
    main()
