"""Fills in what is missing of new golden records; see README.md. Refuses to change an old one."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.golden.golden import HISTORY, STATE, decoded, history, message_of, records, said, state

from fleet import Fleet


def main() -> int:
    """Extend the golden files; 1 when an old record means something else now."""
    entries = history()
    for entry in entries:
        message = message_of(entry)
        if "value" not in entry and message is not None:
            entry["value"] = message.SerializeToString(deterministic=True).hex()
        elif message != decoded(entry):
            sys.stderr.write(f"record {entry['id']} decodes to something else now\n")
            return 1
    fleet = Fleet()
    for entry, record in zip(entries, records(entries), strict=True):
        then = said(fleet, fleet.apply(record))
        if entry.setdefault("then", then) != then:
            sys.stderr.write(f"record {entry['id']} folds to {then} now, not {entry['then']}\n")
            return 1
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    HISTORY.write_text(f"[\n{lines}\n]\n")
    STATE.write_text(json.dumps(state(fleet), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
