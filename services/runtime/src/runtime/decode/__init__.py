"""Decode Protobuf bytes to Arrow columns: only the fields a query reads, typed as the dialect types them.

`columns` selects the columns and their types; `pruning` makes the Protobuf descriptor that has no other
field; `decoder` turns records into columns and finds the broken ones; `damage` reads the fields that stand
before the damage of a broken one. Nothing in here knows Kafka or needs a Spark session.
"""
