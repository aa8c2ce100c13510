"""A query on real data for somebody who looks, and nothing is written (ADR 101).

main       the process: previews one after another, asked by the scheduler that started it
run        one preview: a launch's source, plan and SQL, over a range
take       its rows, from workers
"""
