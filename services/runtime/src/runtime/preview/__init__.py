"""Preview a query on real data; nothing is written (ADR 101).

main       the process: one preview after another, for the scheduler that started it
run        one preview: a launch's source, plan and SQL, over a range
rowfiles   the files by which workers hand rows over
take       the rows of a batch, in workers
"""
