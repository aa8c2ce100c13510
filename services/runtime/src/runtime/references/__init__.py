"""Reference tables: files of keys and values, or of entries, that queries look things up in.

content   what stands in such a file, and what DartGet and DartContains make of it
loading   in the driver: reads locations, keeps the last good version, refreshes before batches
worker    in a worker: the version that belongs to the running batch
"""

from runtime.references.content import InvalidContent, Tables, entries, mapping, parse

__all__ = ["InvalidContent", "Tables", "entries", "mapping", "parse"]
