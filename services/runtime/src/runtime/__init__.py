"""The PySpark job of one dagger: Protobuf Kafka streams, SQL, sinks.

The files beside this one start processes: `__main__` the driver, `daemon` the parent of its Python workers,
`readrows` a reader of rows; `replay` is a room and a process, which writes rows that were quarantined.
`appcds_home` and `training` prepare a host. All else has a room. Imports lead downwards, which import-linter
keeps:

    launch                     launches, in the driver: from a spec to its last words
    source  sinks  state       records in; rows out, a file for each kind of sink; leases and checkpoints
    functions                  our own SQL functions, a file for each
    values                     what several functions are made of: series, zones, JSON paths, messages
    references                 tables that queries look things up in
    decode  encode             Protobuf to Arrow; Arrow to what sinks take
    clients  spark             Kafka clients and secrets; everything that knows PySpark from inside
    errors                     every way a job ends
    members  recent            which launches a process runs, and their logs; caches of what is in use
"""
