"""Simulated nights of on-call: drivers, two monitors and their receivers on one log. The clock is a value.

    drivers    daggers whose rules are judged, and which are killed in the middle of a batch
    monitors   two that judge and send, and may stand still or die at any point at which they wait
    receivers  who is to be told, with limits, absences and answers that are lost
    night      what happens by chance, and the invariants that hold whatever does
    rules      rules of the product, each of which a night misses when it is taken away
    run        nights from a command

The fold and all decisions are the product's own; what is simulated is the time between them.
"""
