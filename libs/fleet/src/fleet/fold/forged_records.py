"""Records that only a program beside Daggers can have written: about daggers that may not be called so.

The fold refuses them (`dagger`); a log from before it did may have them, and what was made of it then.
"""

from __future__ import annotations

from typing import Any

from daggerspec import fields
from eventlog import Record
from fleet.fold.fleet import is_of_dagger


def forged_name(record: Record) -> str | None:
    """Return the invalid name of the dagger that a record is about; None for any other record."""
    message: Any = record.message
    if message is None or not is_of_dagger(record.type):
        return None
    described = message.DESCRIPTOR.fields_by_name
    if "name" in described:
        name = str(message.name)
    elif "meta" in described and "name" in described["meta"].message_type.fields_by_name:
        name = str(message.meta.name)
    else:
        return None
    return name if any(fields.reference("name", name)) else None
