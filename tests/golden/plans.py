"""What the compiler makes of every accepted query of the corpus; as a program it writes that down anew."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conformance.corpus import cases, public

from daggersql import check

PLANS = Path(__file__).with_name("plans.json")
# Findings are for people: their words may change.
_NOT_KEPT = ("warnings",)


def plans() -> dict[str, Any]:
    """The plan of each query by its case: emitted SQL, reads, hidden columns, fingerprint and the rest."""
    corpus = public()
    found = {}
    for case in cases("sql_accept"):
        plan = check(case["sql"], corpus.tables_of(case)).plan
        assert plan is not None, case["id"]
        kept = {name: value for name, value in asdict(plan).items() if name not in _NOT_KEPT}
        found[case["id"]] = json.loads(json.dumps(kept, default=str))
    return found


def main() -> int:
    """Write the file."""
    PLANS.write_text(json.dumps(plans(), indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
