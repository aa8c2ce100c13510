"""The rule book. What a spec may say, what it means where it says nothing, and the names members share.

Pure: no clock, no I/O, no client, no Spark, no SQL compiler. A rule that two members keep stands here, and
both call it.
"""
