"""Alert rules on the rows of a dagger, judged where these are written.

    columns       what rules say of each row, as columns of a batch
    selection     in workers: the rows that say something, for the driver
    limits        limits of reference tables, as columns of a batch
    past          numbers of earlier windows, as columns of a batch
    bands         in the driver: whether numbers are usual ones
    judging       in the driver: rules in force, what they observed, in which order it is kept and sent
    observations  the topic

`daggersql.rules` has the rules themselves, and the engine.
"""
