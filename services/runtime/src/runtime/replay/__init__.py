"""One replay of a dagger's quarantine: `python -m runtime.replay --run-dir DIR …`.

It needs a JVM only where its request asks for the query to be computed.

main            runs an attempt from its command line to its exit code
replaying       runs the steps of an attempt in their order
history         folds the quarantine: which records the replay selects, which have an outcome; pure
verdicts        decides which records cannot be tried, and why; pure
topic           reads and writes `daggers.quarantine`
reading         reads records of a partition by their offsets
originals       fetches the records from the topics that the dagger reads
chunks          groups rows by sink and schema, the same way in every attempt; pure
edits           replaces columns of a row by a person's values; pure
sinkrows        writes a chunk into its sink
sinklogs        checks that nothing waits in the log of a sink, which would come before the rows
records         classifies records that never became rows; pure
undecoded       tries such records in batches
query           runs the dagger's query over them, and over closed windows; the only module with Spark
outcome_writer  appends each record's outcome, once
computing       runs the attempt inside a Spark application
foreseeing      forecasts a replay without writing
"""
