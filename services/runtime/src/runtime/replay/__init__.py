"""One replay of what a dagger has set aside: `python -m runtime.replay --run-dir DIR …`, without a JVM.

main       from the command line to the exit code
history    which records are meant, and which of them have their outcome; pure
verdicts   which of them cannot be tried, and why; pure
topic      `daggers.quarantine`, read and written
chunks     rows of one sink and one schema, the same ones in every attempt; pure
edited     rows with columns that a person has said otherwise; pure
sinkrows   writes a chunk into its sink
late       what is said of a record that never became a row
replaying  the whole of it, in its order
"""
