"""Fills in what is missing of new golden records; see README.md. Refuses to change an old one."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.golden.alerts import ALERTS, ALERTS_STATE, alerts_state, said_of
from tests.golden.golden import HISTORY, STATE, decoded, history, message_of, records, said, state

from eventlog import Record
from fleet import Fleet
from fleet.alerts.ledger import Ledger

Entry = dict[str, Any]


class Changed(Exception):  # noqa: N818 - reads as what happened
    """An old record means something else now."""


def extend(file: Path, fold: Callable[[Entry, Record], Entry]) -> None:
    """Extend one history; `fold` applies a record and says what it did. Raises: Changed."""
    entries = history(file)
    for entry in entries:
        message = message_of(entry)
        if "value" not in entry and message is not None:
            entry["value"] = message.SerializeToString(deterministic=True).hex()
        elif message != decoded(entry):
            raise Changed(f"record {entry['id']} decodes to something else now")
    for entry, record in zip(entries, records(entries), strict=True):
        then = fold(entry, record)
        if entry.setdefault("then", then) != then:
            raise Changed(f"record {entry['id']} folds to {then} now, not {entry['then']}")
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    file.write_text(f"[\n{lines}\n]\n")


def main() -> int:
    """Extend the golden files; 1 when an old record means something else now."""
    fleet, ledger = Fleet(), Ledger()
    try:
        extend(HISTORY, lambda _, record: said(fleet, fleet.apply(record)))
        extend(ALERTS, lambda entry, record: said_of(ledger, entry, changed=ledger.apply(record)))
    except Changed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    STATE.write_text(json.dumps(state(fleet), indent=1) + "\n")
    ALERTS_STATE.write_text(json.dumps(alerts_state(ledger), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
