"""DartGet(name, key[, refresh hours][, default]): the value that a reference table has for a key.

The fast form looks each different key of a batch up once.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from runtime.references import Tables, mapping, worker
from runtime.values.registration import Registration


def reference(
    name: str,
    key: str | None,
    refresh: int | str | None = 1,
    default: str | None = None,
    *,
    tables: Tables,
) -> str | None:
    """Look one key up; the third argument may be the default. Raises: InvalidContent."""
    hours = refresh if isinstance(refresh, int) else 1
    default = refresh if isinstance(refresh, str) else default
    values = mapping(tables.get(name, hours))
    return None if key is None else values.get(key, default)


def compute(names: pa.Array, keys: pa.Array, defaults: pa.Array) -> pa.Array:
    """Look many keys up in the tables of the running batch: text arrays in and out, all of one length."""
    answers = pa.nulls(len(keys), pa.string())
    for name in pc.unique(names).to_pylist():
        if name is not None:
            given = look_up(worker.table(name).mapping, keys, defaults)
            answers = pc.if_else(pc.equal(names, name), given, answers)
    return answers


def look_up(values: Mapping[str, str], keys: pa.Array, defaults: pa.Array) -> pa.Array:
    """Look each key up in one table; its default where the table has none, NULL for NULL."""
    coded = keys.dictionary_encode()
    entries = pa.array(map(values.get, coded.dictionary.to_pylist()), pa.string()).take(coded.indices)
    return pc.coalesce(entries, pc.if_else(keys.is_valid(), defaults, pa.scalar(None, pa.string())))


def register(session: Registration) -> None:
    """Bring `dartget(STRING, STRING, STRING) -> STRING` to the session."""
    session.register_uncounted("dartget", compute, "string")
