"""The Kafka source: topics of Protobuf records as Spark streams that lose no row and close their windows.

One reader for each topic. A reader has two halves in two kinds of processes:

    driver    reader.py    which offsets the next batch has: `alignment`, `ticks`, `starts` decide, purely;
                           `broker` asks Kafka
    executor  ranges.py    reads a range of one partition with a cached consumer; `rows.py` turns it into
    Arrow

`stream.py` puts readers, watermarks and the barrier together into the DataFrame the job works with;
`counts.py` reads from a batch's progress what was read, late or set aside; `board.py` is what readers and
driver tell each other during a launch, `offsets.py` what they leave in the checkpoint.
"""
