"""From Protobuf bytes to Arrow columns: only the fields a query reads, typed as the dialect types them.

`columns` says which columns, of which types; `pruning` makes the Protobuf descriptor that has no other field;
`decoder` turns records into columns and tells which records are broken; `damage` reads what stands before the
damage of a broken one. Nothing in here knows Kafka or needs a Spark session.
"""
