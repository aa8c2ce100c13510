"""Output rows, as Arrow columns, to what a store takes: JSON text, line protocol, Protobuf messages.

Pure: no store, no clock. Encoders work column by column: row by row costs several times as much.
"""
