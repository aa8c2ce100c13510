"""Keep what a sink has not taken in a log of its own, so that the other sinks of a dagger go on.

`state.py` decides (pure, and what the model in `tests/simulation/spool.py` checks); `log.py` is the log, a
topic; `writer.py` appends to it in workers. In the driver `launch/lanes.py` appends the markers, and
`launch/drain.py` writes from it to the sink.
Decisions 219 and 227; docs/freshness.md has the rules and why each is needed.
"""
