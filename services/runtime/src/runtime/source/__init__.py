"""The Kafka source: topics of Protobuf records as Spark streams that lose no row and close their windows.

A stream has up to eight readers, each of one or more topics. A reader has two halves, in two kinds of
processes:

    planner/   driver     which offsets the next batch has. Alignment, idle sources, start offsets and the
                          assignment of topics are decided purely; `broker` asks Kafka.
    reader/    executor   bytes to Arrow: a cached consumer reads a range of one partition, rows are decoded
                          and pre-aggregated, control rows say what the range held.

`datasource.py` is the data source that Spark calls. `stream.py` puts readers and watermarks together into the
DataFrame the job works with; `metrics.py` reads from a batch's progress what was read, late or quarantined;
`status.py` is what readers and driver publish to each other during a launch; `offsets.py` is what they leave
in the checkpoint.
"""
