"""One replay of what a dagger has set aside: `python -m runtime.replay --run-dir DIR …`, without a JVM; with
one where its request asks for the query to be computed.

main       from the command line to the exit code
history    which records are meant, and which of them have their outcome; pure
verdicts   which of them cannot be tried, and why; pure
topic      `daggers.quarantine`, read and written
reading    records of a partition by their offsets
originals  records as they stand in the topics that the dagger reads
chunks     rows of one sink and one schema, the same ones in every attempt; pure
edited     rows with columns that a person has said otherwise; pure
sinkrows   writes a chunk into its sink
records    what is to be done with a record that never became a row; pure
query      computes the query of such records, and of windows that are closed; the only one with Spark
unread     tries such records, so many at once
said       says what became of records, each once
computing  the attempt in a Spark application
replaying  the whole of it, in its order
"""
