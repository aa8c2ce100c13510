"""Reference tables: files of keys and values, or of entries, that queries look things up in.

content   parses such a file, for DartGet and DartContains
fetching  what stands at a location
loading   in the driver: reads locations, stores the last good version, refreshes before batches
worker    in a worker: reads the version that belongs to the running batch
"""

from runtime.references.content import InvalidContent, Tables, entries, mapping, parse

__all__ = ["InvalidContent", "Tables", "entries", "mapping", "parse"]
